// Documents through the whole way: what is masked contributes nothing, and documents packed together stay apart.

#include <cmath>

#include "tests/support.h"
#include <gtest/gtest.h>

#include "accrue/base/file.h"
#include "accrue/tensor/safetensors.h"

namespace accrue::testing {
namespace {

class CorpusTest : public ::testing::Test {
protected:
    [[nodiscard]] Settings settings(const std::string& file) const {
        Settings settings;
        settings.data.train = {(folder_ / file).string()};
        settings.data.order = SampleOrder::Kind::sequential;
        settings.data.sequence_length = 64;
        settings.window.samples = 8;
        settings.window.grain_samples = 8;
        settings.compute.dtype = DType::fp32;
        settings.run.folder = (folder_ / "runs" / "1").string();
        return settings;
    }

    TemporaryFolder folder_;
};

TEST_F(CorpusTest, AMaskedPromptContributesNothing) {
    write_text(folder_ / "pairs.jsonl", "{\"prompt\": \"What? \", \"completion\": \"That.\"}\n");
    const std::string text = "What? That.";
    std::vector<int64_t> ids(text.begin(), text.end());
    ids.push_back(ByteTokenizer::kEnd);
    std::vector<int64_t> labels = ids;
    std::fill(labels.begin(), labels.begin() + 6, -100);
    const std::vector<int64_t> shape = {1, std::ssize(ids)};
    write_safetensors(folder_ / "rows.safetensors", {{"input_ids", "I64", shape, std::as_bytes(std::span(ids))},
                                                     {"labels", "I64", shape, std::as_bytes(std::span(labels))}});
    Settings padded = settings("pairs.jsonl");
    padded.data.layout = Layout::padded;
    TestRun by_document(padded, 2);
    TestRun by_row(settings("rows.safetensors"), 2);
    EXPECT_EQ(by_document.step()->tokens, 6);  // "That." and the end
    (void)by_row.step();
    EXPECT_TRUE(bytes_of(by_document.engine.sum.source()) == bytes_of(by_row.engine.sum.source()));
    EXPECT_EQ(by_document.engine.weights_hash(), by_row.engine.weights_hash());
}

TEST_F(CorpusTest, PackedDocumentsThatMayNotSeeEachOtherGiveTheGradientOfTheTwoAlone) {
    write_text(folder_ / "two.jsonl", "{\"text\": \"Hello, world.\"}\n{\"text\": \"A second one\"}\n");
    Settings packed = settings("two.jsonl");
    packed.data.reset_attention = true;
    Settings padded = settings("two.jsonl");
    padded.data.layout = Layout::padded;
    TestRun together(packed, 2);
    TestRun alone(padded, 2);
    TestRun mixed(settings("two.jsonl"), 2);
    ASSERT_EQ(together.window().samples, 1);
    ASSERT_EQ(alone.window().samples, 2);
    EXPECT_EQ(together.step()->tokens, alone.step()->tokens);
    (void)mixed.step();
    double difference = 0;
    double crossing = 0;
    double norm = 0;
    for (int64_t parameter = 0; parameter < alone.engine.model->parameters().count(); ++parameter) {
        const auto a = together.mean_gradient(parameter);
        const auto b = alone.mean_gradient(parameter);
        const auto c = mixed.mean_gradient(parameter);
        for (size_t i = 0; i < a.size(); ++i) {
            difference += std::pow(a[i] - b[i], 2);
            crossing += std::pow(c[i] - b[i], 2);
            norm += std::pow(b[i], 2);
        }
    }
    EXPECT_LT(std::sqrt(difference / norm), 1e-5);  // fp32 rounding
    EXPECT_GT(std::sqrt(crossing / norm), 1e-3) << "attention across documents must make a difference";
}

TEST_F(CorpusTest, ATrainedTokenizerTrainsSamplesAndIsWrittenBesideTheModel) {
    std::string text;
    for (int i = 0; i < 200; ++i) {
        text += "the cat sat on the mat and the dog sat on the log " + std::to_string(i % 7) + "\n";
    }
    write_text(folder_ / "book.txt", text);
    const std::string tokenizer = (folder_ / "tokenizer.json").string();
    const ProgramResult made = run_program(
        {"tokenizer", "train", (folder_ / "book.txt").string(), "--vocabulary", "300", "--output", tokenizer});
    ASSERT_EQ(made.exit_code, 0) << made.output;
    const std::string run = (folder_ / "runs" / "2").string();
    const ProgramResult trained =
        run_program({"train", "--set", "data.train=" + (folder_ / "book.txt").string(), "--set",
                     "data.tokenizer=" + tokenizer, "--set", "data.sequence_length=32", "--set", "window.samples=2",
                     "--set", "schedule.steps=2", "--set", "run.folder=" + run, "--set", "data.validation_fraction=0"});
    ASSERT_EQ(trained.exit_code, 0) << trained.output;
    EXPECT_EQ(read_text(std::filesystem::path(run) / "model" / "tokenizer.json"), read_text(tokenizer));
    const ProgramResult sampled = run_program({"sample", run, "the cat", "--tokens", "3"});
    EXPECT_EQ(sampled.exit_code, 0) << sampled.output;
    EXPECT_EQ(sampled.output.substr(0, 7), "the cat");
    const ProgramResult measured = run_program({"eval", run, "--data", (folder_ / "book.txt").string()});
    EXPECT_EQ(measured.exit_code, 0) << measured.output;
    EXPECT_NE(measured.output.find("bits per byte"), std::string::npos) << measured.output;
}

}  // namespace
}  // namespace accrue::testing
