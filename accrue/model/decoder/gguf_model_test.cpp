// The way back from GGUF: what is recognised and what is refused.

#include <cmath>
#include <functional>

#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/base/random.h"
#include "accrue/model/decoder/gguf_layout.h"
#include "accrue/model/export_testing.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using GgufModelTest = ExportTest;

TEST_F(GgufModelTest, Llama3ScalingOfOtherWritersIsRecognisedIfItIsLlamas) {
    Loaded model = load_folder(golden_folder("llama3-rope"));
    const auto without_our_keys = [](Contents& contents) { contents.erase("accrue."); };
    const fs::path unlike = edited(gguf_of(model), without_our_keys);
    EXPECT_THAT([&] { (void)read_gguf_model(unlike); }, ThrowsMessage<Error>(HasSubstr("rope_freqs.weight holds")));
    model.config.rope.original_positions = 8192;
    EXPECT_EQ(read_gguf_model(edited(gguf_of(model), without_our_keys)).config.rope, model.config.rope);
}

TEST_F(GgufModelTest, LinearScalingAndBiasesComeBack) {
    Loaded model = load_folder(golden_folder("llama"));
    auto json = nlohmann::json::parse(model.config.source_json);
    json["rope_parameters"] = {{"rope_type", "linear"}, {"rope_theta", 10000.0}, {"factor", 1.3}};
    json["attention_bias"] = true;
    json["mlp_bias"] = true;
    model.config = parse_model_config(json.dump(), "test", 0);
    const ParameterList parameters = decoder_parameters(model.config).list;
    model.weights.assign(static_cast<size_t>(parameters.flat_elements), 0);
    for (const Parameter& parameter : parameters.parameters) {
        for (int64_t i = 0; i < parameter.elements(); ++i) {
            const auto place = static_cast<uint64_t>(parameter.offset + i);
            model.weights[static_cast<size_t>(place)] = normal(mix(7, place));
        }
    }
    const fs::path file = gguf_of(model);
    EXPECT_EQ(*GgufFile(file).find("llama.rope.scaling.type"), GgufValue(std::string("linear")));
    EXPECT_EQ(*GgufFile(file).find("llama.rope.scaling.factor"), GgufValue(1.3F));
    const GgufModel again = read_gguf_model(file);
    EXPECT_EQ(again.config.rope, model.config.rope);
    EXPECT_EQ(again.weights, model.weights);
}

TEST_F(GgufModelTest, AGgufThatIsNotTheModelItSaysIsRefused) {
    const fs::path good = gguf_of("llama");
    const auto expect_refused = [&](const std::string& reason, const std::function<void(Contents&)>& edit) {
        SCOPED_TRACE(reason);
        const fs::path bad = edited(good, edit);
        EXPECT_THAT([&] { (void)read_gguf_model(bad); },
                    ThrowsMessage<Error>(::testing::AllOf(HasSubstr(bad.string()), HasSubstr(reason))));
    };
    expect_refused("key general.architecture is \"bert\"",
                   [](Contents& c) { c.set("general.architecture", std::string("bert")); });
    expect_refused("key general.architecture is missing", [](Contents& c) { c.erase("general.architecture"); });
    expect_refused("key general.architecture is no text",
                   [](Contents& c) { c.set("general.architecture", uint32_t{1}); });
    expect_refused("key llama.block_count is missing", [](Contents& c) { c.erase("llama.block_count"); });
    expect_refused("key llama.block_count is f32", [](Contents& c) { c.set("llama.block_count", 2.0F); });
    expect_refused("key llama.block_count is 0", [](Contents& c) { c.set("llama.block_count", uint32_t{0}); });
    expect_refused("tensor blk.2.attn_norm.weight is missing, but the metadata names 10000 blocks",
                   [](Contents& c) { c.set("llama.block_count", uint64_t{10000}); });
    expect_refused("the model has 1000000 layers", [](Contents& c) { c.set("llama.block_count", uint64_t{1000000}); });
    expect_refused("key llama.attention.layer_norm_rms_epsilon is no number above 0",
                   [](Contents& c) { c.set("llama.attention.layer_norm_rms_epsilon", -1.0F); });
    expect_refused("key llama.rope.scaling.type is \"yarn\"",
                   [](Contents& c) { c.set("llama.rope.scaling.type", std::string("yarn")); });
    expect_refused("key llama.rope.dimension_count is not the size of a head",
                   [](Contents& c) { c.set("llama.rope.dimension_count", uint32_t{4}); });
    expect_refused("key llama.attention.value_length is not",
                   [](Contents& c) { c.set("llama.attention.value_length", uint32_t{4}); });
    expect_refused("key llama.expert_count is there", [](Contents& c) { c.set("llama.expert_count", uint32_t{8}); });
    expect_refused("tensor blk.0.ffn_up.weight is not 71 x 32",
                   [](Contents& c) { c.set("llama.feed_forward_length", uint32_t{71}); });
    expect_refused("tensor blk.1.ffn_down.weight is missing",
                   [](Contents& c) { c.tensors[c.tensor("blk.1.ffn_down.weight")].name += "x"; });
    expect_refused("tensor token_embd.weight is missing",
                   [](Contents& c) { c.tensors[c.tensor("token_embd.weight")].name += "x"; });
    expect_refused("tensor token_embd.weight is no matrix",
                   [](Contents& c) { c.tensors[c.tensor("token_embd.weight")].shape = {101 * 32}; });
    expect_refused("tensor blk.1.ffn_down.weight has 2304 numbers in a shape", [](Contents& c) {
        c.tensors[c.tensor("blk.1.ffn_down.weight")].shape = {72, 32};
    });
    expect_refused("tensor blk.2.attn_norm.weight is unknown", [](Contents& c) {
        c.tensors.push_back({.name = "blk.2.attn_norm.weight", .shape = {1}});
        c.values.push_back({1.0F});
    });
    expect_refused("tensor output_norm.weight holds nan at element 3",
                   [](Contents& c) { c.values[c.tensor("output_norm.weight")][3] = std::nanf(""); });
    expect_refused("has not one factor for each pair", [](Contents& c) {
        c.tensors.push_back({.name = kRopeFactorsName, .shape = {1}});
        c.values.push_back({1.0F});
    });
}

// Whatever the bytes are: an error or a model, and no more memory than the file has.
TEST_F(GgufModelTest, NoDamageDoesMoreThanThrow) {
    const fs::path path = gguf_of("llama");
    const std::string whole = read_text(path);
    const size_t header = whole.find("blk.1.ffn_down.weight");
    ASSERT_NE(header, std::string::npos);
    for (uint64_t seed = 0; seed < 1000; ++seed) {
        std::string bytes = whole;
        bytes[mix(seed, 1) % header] = static_cast<char>(mix(seed, 2));
        fs::remove(path);  // a file written over waits for the disk
        OutputFile(path).write(bytes);
        try {
            (void)read_gguf_model(path);
        } catch (const Error&) {
            continue;
        }
    }
}

}  // namespace
}  // namespace accrue::testing
