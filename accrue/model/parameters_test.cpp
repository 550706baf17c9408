#include "accrue/model/parameters.h"

#include <cmath>

#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"

namespace accrue {
namespace {

TEST(ParametersTest, TensorsOfOneProductLieSideBySide) {
    for (const std::string& preset : preset_names()) {
        const DecoderParameters decoder = decoder_parameters(preset_config(preset));
        for (const BlockParameters& block : decoder.blocks) {
            for (const LinearParameters* linear :
                 {&block.qkv, &block.attention_output, &block.mlp_input, &block.mlp_output}) {
                int64_t outputs = 0;
                int64_t next = decoder.list[linear->parts.front().weight].offset;
                for (const auto& part : linear->parts) {
                    EXPECT_EQ(part.first_output, outputs);
                    EXPECT_EQ(decoder.list[part.weight].offset, next);
                    outputs += part.outputs;
                    next += decoder.list[part.weight].elements();
                }
                EXPECT_EQ(outputs, linear->out);
            }
        }
    }
}

TEST(ParametersTest, NoTwoTensorsOverlapAndAllFit) {
    const ParameterList list = decoder_parameters(preset_config("tiny")).list;
    int64_t end = 0;
    for (const Parameter& parameter : list.parameters) {
        EXPECT_GE(parameter.offset, end) << parameter.name;
        end = parameter.offset + parameter.elements();
    }
    EXPECT_LE(end, list.flat_elements);
}

TEST(ParametersTest, FreshWeightsAreAFunctionOfTheSeed) {
    const ParameterList list = decoder_parameters(preset_config("tiny")).list;
    const auto fresh = [&](uint64_t seed) {
        std::vector<float> weights(static_cast<size_t>(list.flat_elements));
        initialize_weights(list, seed, weights);
        return weights;
    };
    const auto first = fresh(1);
    EXPECT_EQ(fresh(1), first);
    EXPECT_NE(fresh(2), first);
    double squares = 0;
    const Parameter& embedding = list[0];
    for (int64_t i = 0; i < embedding.elements(); ++i) {
        squares += std::pow(static_cast<double>(first[static_cast<size_t>(embedding.offset + i)]), 2);
    }
    const double deviation = std::sqrt(squares / static_cast<double>(embedding.elements()));
    EXPECT_NEAR(deviation, 0.02, 0.001);  // 65,792 draws: 0.3% of sampling error
}

// A run that was started by an older program must find the same first weights.
TEST(ParametersTest, FreshWeightsKeepTheirBits) {
    const ParameterList list = decoder_parameters(preset_config("tiny")).list;
    int64_t told = 0;
    for (const int threads : {1, 2, 7}) {
        Pool pool(threads);
        std::vector<float> weights(static_cast<size_t>(list.flat_elements));
        initialize_weights(list, 1, weights, {.pool = &pool, .told = [&](int64_t done, int64_t) { told = done; }});
        EXPECT_EQ(hash_of(std::as_bytes(std::span(weights))), "9e9d25cff3d31f36bfc2bcb100ab0390") << threads;
        EXPECT_EQ(told, list.elements() * 4) << "all of it is counted";
    }
}

TEST(ParametersTest, ShapesThatNothingComputesWithAreErrors) {
    ParameterList list;
    try {
        (void)list.add({.name = "experts.weight", .shape = {8, 4, 2}});
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(),
                     "parameter experts.weight has 3 dimensions; parameters with one or two are computed with");
    }
}

TEST(ParametersTest, WhatIsFrozenHasNoPlaceAmongTheGradients) {
    ParameterList list = decoder_parameters(preset_config("tiny")).list;
    EXPECT_EQ(list.gradient_elements, list.flat_elements);
    for (int64_t index = 0; index < list.count(); ++index) {
        EXPECT_EQ(list[index].gradient->offset, list[index].offset) << "all trained: one layout for all";
    }
    list.place_gradients([](const Parameter& parameter) { return !parameter.is_matrix(); });
    int64_t next = 0;
    for (const int64_t index : list.trained) {
        EXPECT_FALSE(list[index].is_matrix());
        EXPECT_EQ(list[index].gradient->offset, next);
        next += (list[index].elements() + 15) / 16 * 16;
    }
    EXPECT_EQ(list.gradient_elements, next);
    EXPECT_FALSE(list[0].gradient);
}

}  // namespace
}  // namespace accrue
