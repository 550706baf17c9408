#include "tests/sanitized.h"
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/data/cache/token_cache_test_support.h"
#include "accrue/data/samples/cached_dataset.h"

namespace accrue {
namespace {

constexpr int64_t kDocumentBytes = 20'000;
constexpr int64_t kDocuments = 10'000;

// 200 MB of text that nobody has to store.
class EndlessReader final : public DocumentReader {
public:
    bool next(Document& document) override {
        document.parts = {{.text = std::string(kDocumentBytes, static_cast<char>(given_ % 251)), .ids = {}}};
        return ++given_ <= kDocuments;
    }

private:
    int64_t given_ = 0;
};

// Memory that belongs to the process alone, in KiB.
int64_t anonymous_memory() {
    const std::string status = read_text("/proc/self/status");
    const size_t place = status.find("RssAnon:");
    if (place == std::string::npos) {
        throw Error("this system does not tell RssAnon");
    }
    return std::stoll(status.substr(place + 8));
}

class TokenCacheMemoryTest : public CacheFolderTest {};

TEST_F(TokenCacheMemoryTest, StaysTheSameHoweverLargeTheCorpusIs) {
    if (kSanitized) {
        GTEST_SKIP() << "a sanitizer keeps freed memory";
    }
    TokenSource large = source({file("a.txt", "seed")});
    large.open = [](const std::filesystem::path&) { return std::make_unique<EndlessReader>(); };
    large.tokenize = [](const Document& document, PiecePlace, TokenizedDocument& tokenized) {
        const std::string& text = document.parts.front().text;
        tokenized.ids.assign(text.size() / 4, text.front() & 127);
        tokenized.counted.assign(tokenized.ids.size(), 1);
    };
    int64_t turns = 0;
    int64_t begin = 0;
    int64_t most = 0;
    TokenCacheOptions measured = options(2);
    measured.progress = [&](const CacheProgress&) {
        most = std::max(most, anonymous_memory());
        begin = ++turns == 20 ? most : begin;
    };
    const auto cache = open_token_cache(large, measured);
    ASSERT_EQ(cache->token_count(), kDocuments * kDocumentBytes / 4);
    ASSERT_GT(turns, 200);
    // A tenth of the text's tokens would be 10 MB.
    EXPECT_LT(most - begin, 4096) << "KiB, of " << most;

    const auto split = DocumentSelection::split(cache, 0.1);
    const auto data = packed_dataset(split.train, {.sequence_length = 1024, .end_token = 0});
    int64_t sum = 0;
    for (int64_t i = 0; i < data->size(); i += 7) {
        sum += data->weight(i) + data->sample(i).targets.back();
    }
    EXPECT_GT(sum, 0);
    EXPECT_LT(anonymous_memory() - begin, 4096) << "KiB after reading samples";
}

}  // namespace
}  // namespace accrue
