// What a disk, a copy or a hand has changed in a cache must never become a sample.

#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/data/cache/token_cache_test_support.h"
#include "accrue/data/samples/cached_dataset.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class TokenCacheDamageTest : public CacheFolderTest {
protected:
    static void flip_byte(const fs::path& path, int64_t place) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(place);
        const int byte = file.get();
        ASSERT_NE(byte, EOF) << path << " has no byte " << place;
        file.seekp(place);
        file.put(static_cast<char>(byte ^ 4));
    }

    static void read_all(const Dataset& data) {
        for (int64_t i = 0; i < data.size(); ++i) {
            (void)data.weight(i);
            (void)data.sample(i);
        }
    }

    // How reading everything of these files ends, packed and padded.
    [[nodiscard]] std::string error_of_reading(const TokenSource& sources) const {
        try {
            const auto cache = open_token_cache(sources, options());
            EXPECT_EQ(cache->rebuilt_because(), "");
            const auto documents = DocumentSelection::all_of(cache);
            read_all(*packed_dataset(documents, {.sequence_length = 50, .end_token = 0}));
            read_all(*padded_dataset(documents, {.sequence_length = 200, .end_token = 0}));
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    static fs::path split_file_of(const TokenCache& cache) {
        for (const auto& entry : fs::directory_iterator(cache.folder())) {
            if (entry.path().filename().string().starts_with("split-")) {
                return entry.path();
            }
        }
        return {};
    }
};

TEST_F(TokenCacheDamageTest, AFlippedByteIsAnErrorInWhateverFileItIs) {
    const auto sources = source({file("a.txt", many_lines(200))});
    const fs::path cache = open_token_cache(sources, options())->folder();
    ASSERT_EQ(error_of_reading(sources), "no error");
    for (const char* name : {"tokens", "counted", "documents"}) {
        const auto size = static_cast<int64_t>(fs::file_size(cache / name));
        for (const int64_t place : {int64_t{0}, size / 3, size / 2, size - 1}) {
            flip_byte(cache / name, place);
            EXPECT_THAT(error_of_reading(sources),
                        AllOf(HasSubstr(cache.string() + " is damaged"), HasSubstr(cat("its file ", name)),
                              HasSubstr(cat("in the bytes from 0 to ", size)), HasSubstr("Remove that folder")))
                << place;
            flip_byte(cache / name, place);
        }
    }
    EXPECT_EQ(error_of_reading(sources), "no error");
    flip_byte(cache / "tokens", 0);
    fs::remove_all(cache);
    EXPECT_EQ(error_of_reading(sources), "no error") << "made anew, as the error says";
}

// A start must not read everything, so the blocks are looked at one by one.
TEST_F(TokenCacheDamageTest, OnlyTheBlockThatIsDamagedIsRefused) {
    const int64_t half_a_block = kSumBlockBytes / sizeof(uint16_t) / 2;
    std::string text;
    for (const char letter : {'a', 'b', 'c', 'd', 'e'}) {
        text += std::string(half_a_block, letter) + "\n";
    }
    const auto sources = source({file("a.txt", text)});
    const fs::path folder = open_token_cache(sources, options())->folder();
    flip_byte(folder / "tokens", kSumBlockBytes + 7);
    const auto cache = open_token_cache(sources, options());
    EXPECT_EQ(text_of(*cache, 0), std::string(half_a_block, 'a'));
    EXPECT_EQ(text_of(*cache, 4), std::string(half_a_block, 'e'));
    for (const int64_t document : {2, 3}) {
        EXPECT_THAT([&] { (void)text_of(*cache, document); },
                    testing::ThrowsMessage<Error>(
                        HasSubstr(cat("in the bytes from ", kSumBlockBytes, " to ", 2 * kSumBlockBytes))));
    }
}

TEST_F(TokenCacheDamageTest, ThreadsThatReadAtOnceGetTheSameTokensOrTheError) {
    const auto sources = source({file("a.txt", many_lines(20'000))});
    const auto whole = open_token_cache(sources, options());
    const int64_t last = whole->document_count() - 1;
    flip_byte(whole->folder() / "tokens", static_cast<int64_t>(whole->header().tokens_bytes()) - 1);
    std::vector<std::string> expected;
    for (int64_t i = 0; i < last / 2; ++i) {
        expected.push_back(text_of(*whole, i));
    }
    const auto cache = open_token_cache(sources, options());
    std::atomic<int> equal = 0;
    std::atomic<int> refused = 0;
    {
        std::vector<std::jthread> readers;
        for (int reader = 0; reader < 4; ++reader) {
            readers.emplace_back([&] {
                for (int64_t i = 0; i < last / 2; ++i) {
                    equal += text_of(*cache, i) == expected[static_cast<size_t>(i)] ? 1 : 0;
                }
                try {
                    (void)text_of(*cache, last);
                } catch (const Error&) {
                    ++refused;
                }
            });
        }
    }
    EXPECT_EQ(equal, 4 * (last / 2));
    EXPECT_EQ(refused, 4);
}

TEST_F(TokenCacheDamageTest, AFlippedByteInTheListOfASplitIsFoundToo) {
    const auto cache = open_token_cache(source({file("a.txt", many_lines(200))}), options());
    const auto validation_of = [&] {
        const auto split = DocumentSelection::split(cache, 0.5);
        std::vector<int64_t> documents;
        for (int64_t i = 0; i < split.validation.size(); ++i) {
            documents.push_back(split.validation.document(i));
        }
        return documents;
    };
    const std::vector<int64_t> whole = validation_of();
    const fs::path list = split_file_of(*cache);
    const auto size = static_cast<int64_t>(fs::file_size(list));
    flip_byte(list, size / 2);
    EXPECT_THAT([&] { (void)validation_of(); },
                testing::ThrowsMessage<Error>(
                    AllOf(HasSubstr(cat("its file ", list.filename().string())), HasSubstr("Remove that folder"))));
    flip_byte(list, size / 2);
    EXPECT_EQ(validation_of(), whole);
    // The list's own checksums can be made again at once.
    for (const int64_t place : {size - 1, size - 12, int64_t{40}}) {
        flip_byte(list, place);
        EXPECT_EQ(validation_of(), whole) << place;
    }
}

}  // namespace
}  // namespace accrue
