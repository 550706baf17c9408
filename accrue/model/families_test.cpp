#include "accrue/model/families.h"

#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/base/test_places.h"

namespace accrue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A model of a family that is described by a config.json alone and computes nothing.
class Idle final : public ModelSpec {
public:
    explicit Idle(std::string_view json)
        : ModelSpec({.family = "idle", .vocabulary = 7, .config_json = std::string(json)}) {}
    [[nodiscard]] std::unique_ptr<Model> make(const ModelOptions& /*options*/, Kernels& /*kernels*/) const override {
        return nullptr;
    }
    [[nodiscard]] std::shared_ptr<const ModelSpec> at_most(const ModelLimits& /*limits*/) const override {
        return nullptr;
    }
    [[nodiscard]] double gradient_flops(int64_t /*tokens*/) const override { return 0; }
};

ModelFamilies with_idle() {
    ModelFamilies families = known_families();
    families.add({.names = {"idle"},
                  .parse = [](std::string_view json, const std::string& /*where*/, int64_t /*sequence_length*/) {
                      return std::make_shared<Idle>(json);
                  }});
    return families;
}

TEST(FamiliesTest, AConfigNamesItsFamily) {
    const TemporaryFolder folder;
    write_text(folder / "config.json", R"({"model_type": "idle", "vocab_size": 7})");
    EXPECT_EQ(with_idle().read(folder.path(), 0)->vocabulary(), 7);
    EXPECT_EQ(with_idle().parse(R"({"model_type": "llama"})", "test", 0)->family(), "llama");
}

TEST(FamiliesTest, AFolderWithoutConfigIsNamed) {
    EXPECT_THAT([] { (void)known_families().read(source_folder() / "tests", 0); },
                ThrowsMessage<Error>(HasSubstr("tests/config.json")));
}

TEST(FamiliesTest, AnUnknownFamilyIsRefusedWithTheKnown) {
    const auto parsed = [](const ModelFamilies& families, const std::string& json) {
        return [&families, json] { (void)families.parse(json, "config.json", 0); };
    };
    const ModelFamilies known = known_families();
    EXPECT_THAT(parsed(known, R"({"model_type": "mamba"})"),
                ThrowsMessage<Error>("config.json: model_type is \"mamba\", but the known families are \"gpt2\", "
                                     "\"llama\", \"mistral\", \"qwen2\", \"qwen3\"."));
    EXPECT_THAT(parsed(with_idle(), R"({"model_type": "mamba"})"),
                ThrowsMessage<Error>(HasSubstr("\"qwen3\", \"idle\".")));
    EXPECT_THAT(parsed(known, "{}"),
                ThrowsMessage<Error>("config.json: model_type is absent, but it names the model's family."));
    EXPECT_THAT(parsed(known, "{\"model_type\": "), ThrowsMessage<Error>(HasSubstr("config.json is not valid JSON: ")));
    EXPECT_THAT(parsed(known, "3"), ThrowsMessage<Error>(HasSubstr("must be a JSON object")));
}

TEST(FamiliesTest, PresetsAndShapesBelongToTheFamilyThatHasThem) {
    const ModelFamilies families = with_idle();
    EXPECT_THAT(families.preset_names(), ElementsAre("tiny", "gpt2-124m", "llama-350m", "llama-1.5b"));
    EXPECT_THAT(families.shape_names(), ElementsAre("gpt2", "llama", "mistral", "qwen2", "qwen3"));
    EXPECT_EQ(families.preset("gpt2-124m")->family(), "gpt2");
    EXPECT_EQ(families.shaped("", {.family = "qwen3", .layers = 2, .width = 64, .heads = 4}, {.count = 300})->blocks(),
              2);
    EXPECT_THAT(
        [&] { (void)families.preset("huge"); },
        ThrowsMessage<Error>("there is no preset \"huge\"; the presets are tiny, gpt2-124m, llama-350m, llama-1.5b."));
    EXPECT_THAT([&] { (void)families.shaped("", {.family = "idle"}, {}); },
                ThrowsMessage<Error>("model.family is \"idle\", which is no family that a shape can have."));
}

TEST(FamiliesTest, WhatAFamilyCannotBecomeIsSaid) {
    const Idle idle("{}");
    EXPECT_THAT(
        [&] { (void)idle.write_gguf({.file = "out.gguf"}, {}); },
        ThrowsMessage<Error>("cannot write out.gguf: llama.cpp has no models of the family \"idle\". Export it as a "
                             "Hugging Face folder instead: --to hf."));
    EXPECT_THAT(idle.description(),
                ElementsAre(std::pair{"family", "idle"}, std::pair{"vocabulary", "7"}, std::pair{"positions", "0"}));
}

// By hand: 12 blocks of 768 x (2304 + 768 + 3072 + 3072) and a head of 768 x 50304 make 123,568,128 parameters of products.
TEST(FamiliesTest, GptTwoTakes817GigaflopASequence) {
    const auto model = known_families().preset("gpt2-124m");
    EXPECT_EQ(model->gradient_flops(1024), 6.0 * 123'568'128 * 1024 + 6.0 * 12 * 768 * 1024 * 1024);
    EXPECT_NEAR(model->gradient_flops(1024), 817.2e9, 0.05e9);
}

// By hand: a block of 1024 x (3072 + 1024 + 5632) + 2816 x 1024; the head is counted, the embedding is not.
TEST(FamiliesTest, AnUntiedHeadCountsOnceAndTheEmbeddingDoesNot) {
    const double matrices = 24.0 * (1024.0 * (3072 + 1024 + 5632) + 2816.0 * 1024) + 32000.0 * 1024;
    EXPECT_EQ(known_families().preset("llama-350m")->gradient_flops(512),
              6 * matrices * 512 + 6.0 * 24 * 1024 * 512 * 512);
}

TEST(FamiliesTest, ASmallerModelHasTheSameWidthsAndLessOfThem) {
    const auto model = known_families().preset("tiny");
    const auto smaller = model->at_most({.blocks = 1, .vocabulary = 100, .positions = 32});
    EXPECT_EQ(smaller->blocks(), 1);
    EXPECT_EQ(smaller->vocabulary(), 100);
    EXPECT_EQ(smaller->positions(), 32);
    EXPECT_EQ(smaller->parameters()[0].shape, (std::vector<int64_t>{100, 256}));
    EXPECT_EQ(model->at_most({})->computation_json(), model->computation_json());
}

}  // namespace
}  // namespace accrue
