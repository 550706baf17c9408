#include "accrue/data/samples/corpus.h"

#include <fstream>

#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/cache/token_cache_test_support.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class CorpusTest : public CacheFolderTest {
protected:
    [[nodiscard]] CorpusOptions corpus_of(std::vector<fs::path> files, int64_t sequence_length) const {
        return {.files = std::move(files), .cache_folder = folder_ / "cache", .sequence_length = sequence_length};
    }

    // What packing must give: each text ended, joined, and cut into samples.
    [[nodiscard]] static std::unique_ptr<Dataset> joined(const std::vector<fs::path>& files, int64_t sequence_length) {
        std::vector<int32_t> tokens;
        for (const fs::path& file : files) {
            const std::vector<int32_t> ids = ByteTokenizer().encode(read_text(file));
            tokens.insert(tokens.end(), ids.begin(), ids.end());
            tokens.push_back(ByteTokenizer::kEnd);
        }
        return dataset_of_tokens(tokens, sequence_length, "joined");
    }

    static std::string error_of(const CorpusOptions& options) {
        try {
            (void)open_corpus(options, ByteTokenizer());
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }
};

TEST_F(CorpusTest, TextFilesAreEndedJoinedAndCut) {
    const std::vector<fs::path> files = {file("a.txt", "One text.\nTwo lines.\n"),
                                         file("b.txt", std::string(999, 'b'))};
    for (const int64_t length : {3, 32, 4096}) {
        const Corpus corpus = open_corpus(corpus_of(files, length), ByteTokenizer());
        const auto expected = joined(files, length);
        EXPECT_EQ(corpus.validation, nullptr);
        EXPECT_EQ(corpus.documents, 2);
        EXPECT_EQ(corpus.tokens, 21 + 999);
        EXPECT_EQ(corpus.skipped, 0);
        ASSERT_EQ(corpus.train->size(), expected->size());
        for (int64_t i = 0; i < expected->size(); ++i) {
            EXPECT_EQ(corpus.train->sample(i).tokens, expected->sample(i).tokens);
            EXPECT_EQ(corpus.train->sample(i).targets, expected->sample(i).targets);
        }
    }
}

TEST_F(CorpusTest, CompletionsCountAndPromptsDoNot) {
    CorpusOptions options = corpus_of({file("a.jsonl", R"({"prompt": "ab", "completion": "c"})")}, 8);
    options.layout = Layout::padded;
    const Corpus corpus = open_corpus(options, ByteTokenizer());
    ASSERT_EQ(corpus.train->size(), 1);
    EXPECT_THAT(corpus.train->sample(0).tokens, ElementsAre('a', 'b', 'c'));
    EXPECT_THAT(corpus.train->sample(0).targets, ElementsAre(-1, 'c', ByteTokenizer::kEnd));
}

TEST_F(CorpusTest, BothSidesOfASplitComeFromOneCache) {
    std::string lines;
    for (int i = 0; i < 200; ++i) {
        lines += "{\"text\": \"line " + std::to_string(i) + "\"}\n";
    }
    CorpusOptions options = corpus_of({file("a.jsonl", lines)}, 8);
    options.layout = Layout::padded;
    options.validation_fraction = 0.2;
    const Corpus corpus = open_corpus(options, ByteTokenizer());
    ASSERT_NE(corpus.validation, nullptr);
    EXPECT_EQ(corpus.train->size() + corpus.validation->size(), 200);
    EXPECT_NE(corpus.train->fingerprint(), corpus.validation->fingerprint());
}

TEST_F(CorpusTest, SkippedLinesAreCountedAlsoTheSecondTime) {
    CorpusOptions options = corpus_of({file("a.jsonl", "{\"text\": \"good\"}\nnot json\n")}, 8);
    EXPECT_THAT(error_of(options), HasSubstr("a.jsonl"));
    options.reader.skip_bad = true;
    EXPECT_EQ(open_corpus(options, ByteTokenizer()).skipped, 1);
    EXPECT_EQ(open_corpus(options, ByteTokenizer()).skipped, 1);
}

// Larger than a piece of the text reader.
TEST_F(CorpusTest, ALargeFileIsOneDocument) {
    std::string text;
    while (text.size() < 3'000'000) {
        text += "Number " + std::to_string(text.size()) + " is next.\n";
    }
    const fs::path path = file("a.txt", text);
    const Corpus corpus = open_corpus(corpus_of({path}, 100'000), ByteTokenizer());
    EXPECT_EQ(corpus.documents, 1);
    const auto expected = joined({path}, 100'000);
    ASSERT_EQ(corpus.train->size(), expected->size());
    for (int64_t i = 0; i < expected->size(); ++i) {
        ASSERT_TRUE(corpus.train->sample(i).tokens == expected->sample(i).tokens) << i;
        ASSERT_TRUE(corpus.train->sample(i).targets == expected->sample(i).targets) << i;
    }
}

TEST_F(CorpusTest, WrongOptionsAreErrors) {
    CorpusOptions options = corpus_of({file("a.txt", "text")}, 8);
    options.validation_fraction = 1;
    EXPECT_THAT(error_of(options), HasSubstr("data.validation_fraction is 1"));
    options.validation_fraction = -0.5;
    EXPECT_THAT(error_of(options), HasSubstr("data.validation_fraction is -0.5"));
    options.validation_fraction = 0;
    options.sequence_length = 0;
    EXPECT_THAT(error_of(options), HasSubstr("data.sequence_length is 0"));
}

// Without a tokenizer nobody knows which id ends a document, so that none is put there.
TEST_F(CorpusTest, IdsNeedAVocabularyThatHasThemOrNone) {
    const std::vector<uint32_t> ids = {5, 70000, 6};
    const fs::path path = folder_ / "a.u32.bin";
    std::ofstream(path).write(reinterpret_cast<const char*>(ids.data()), 12);
    CorpusOptions options = corpus_of({path}, 8);
    EXPECT_THAT(error_of(options), AllOf(HasSubstr("has the token 70000"), HasSubstr("has only 257")));
    EXPECT_THAT(open_corpus(options, UnknownTokenizer()).train->sample(0).targets, ElementsAre(70000, 6));
    const CorpusOptions text = corpus_of({file("a.txt", "text")}, 8);
    EXPECT_THAT([&] { (void)open_corpus(text, UnknownTokenizer()); },
                testing::ThrowsMessage<Error>(AllOf(HasSubstr("no tokenizer"), HasSubstr("data.tokenizer"))));
}

}  // namespace
}  // namespace accrue
