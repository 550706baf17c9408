#include "accrue/model/model_folder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/base/test_places.h"
#include "accrue/model/families.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

class ModelFolderTest : public ::testing::Test {
protected:
    static fs::path golden(const std::string& name) { return source_folder() / "tests/golden" / name; }
    static std::vector<float> load(const fs::path& folder, const ParameterList& list) {
        std::vector<float> weights(static_cast<size_t>(list.flat_elements));
        load_model_weights(folder, list, put_into(weights));
        return weights;
    }

    TemporaryFolder folder_;
};

TEST_F(ModelFolderTest, WhatIsWrittenIsReadBackAndIsTheSameFileEachTime) {
    const auto spec = known_families().read(golden("qwen3"), 24);
    const ParameterList& list = spec->parameters();
    const std::vector<float> weights = load(golden("qwen3"), list);
    write_model_folder(folder_ / "a", *spec, weights);
    write_model_folder(folder_ / "b", *spec, weights);
    write_model_folder(folder_ / "b", *spec, weights);  // over an older one
    EXPECT_EQ(load(folder_ / "a", list), weights);
    EXPECT_EQ(known_families().read(folder_ / "a", 24)->config_json(), spec->config_json());
    EXPECT_EQ(read_text(folder_ / "a" / "model.safetensors"), read_text(folder_ / "b" / "model.safetensors"));
}

TEST_F(ModelFolderTest, ThreadsReadTheSameWeightsAndTellHowFarTheyAre) {
    const ParameterList list = known_families().read(golden("qwen3"), 24)->parameters();
    std::vector<float> weights(static_cast<size_t>(list.flat_elements));
    Pool pool(3);
    std::vector<int64_t> told;
    load_model_weights(golden("qwen3"), list, put_into(weights),
                       {.pool = &pool, .told = [&](int64_t done, int64_t) { told.push_back(done); }});
    EXPECT_EQ(weights, load(golden("qwen3"), list));
    EXPECT_EQ(told.front(), 0);
    EXPECT_EQ(told.back(), list.elements() * 4);
}

// A model without its tokenizer is a model that nobody can use.
TEST_F(ModelFolderTest, FilesBesideTheWeightsAppearWithThemAndTheOldModelStaysUntilThen) {
    const auto spec = known_families().read(golden("llama"), 24);
    const ParameterList& list = spec->parameters();
    const std::vector<float> weights = load(golden("llama"), list);
    const fs::path model = folder_ / "model";
    const auto write = [&](const std::string& tokenizer) {
        write_model_folder(model, *spec, weights, nullptr, [&](const fs::path& aside) {
            EXPECT_TRUE(!fs::exists(model) || read_text(model / "tokenizer.json") == "old");
            if (tokenizer.empty()) {
                throw Error("no room");
            }
            write_text(aside / "tokenizer.json", tokenizer);
        });
    };
    write("old");
    EXPECT_THROW(write(""), Error);
    EXPECT_EQ(read_text(model / "tokenizer.json"), "old");
    EXPECT_EQ(load(model, list), weights);
    write("new");
    EXPECT_EQ(read_text(model / "tokenizer.json"), "new");
}

TEST_F(ModelFolderTest, ShardsAreReadAsOneModel) {
    const auto spec = known_families().read(golden("llama"), 24);
    const ParameterList& list = spec->parameters();
    const std::vector<float> weights = load(golden("llama"), list);
    nlohmann::json index;
    std::vector<std::vector<TensorToStore>> shards(2);
    for (const TensorToStore& tensor : named_tensors(list, weights)) {
        const size_t shard = tensor.name.size() % 2;
        shards[shard].push_back(tensor);
        index["weight_map"][tensor.name] = "model-0000" + std::to_string(shard + 1) + "-of-00002.safetensors";
    }
    write_safetensors(folder_ / "model-00001-of-00002.safetensors", shards[0]);
    write_safetensors(folder_ / "model-00002-of-00002.safetensors", shards[1]);
    write_text(folder_ / "model.safetensors.index.json", index.dump());
    EXPECT_EQ(load(folder_.path(), list), weights);
    fs::remove(folder_ / "model-00002-of-00002.safetensors");
    EXPECT_THROW(load(folder_.path(), list), std::exception);
}

TEST_F(ModelFolderTest, Gpt2FilesComeWithoutPrefixAndWithBuffers) {
    const auto spec = known_families().read(golden("gpt2"), 24);
    const ParameterList& list = spec->parameters();
    const std::vector<float> weights = load(golden("gpt2"), list);
    std::vector<TensorToStore> tensors = named_tensors(list, weights);
    for (TensorToStore& tensor : tensors) {
        tensor.name = tensor.name.substr(std::string("transformer.").size());
    }
    tensors.push_back(tensors.front());
    tensors.back().name = "h.0.attn.bias";  // the causal mask that old files carry
    write_safetensors(folder_ / "model.safetensors", tensors);
    EXPECT_EQ(load(folder_.path(), list), weights);
}

}  // namespace
}  // namespace accrue
