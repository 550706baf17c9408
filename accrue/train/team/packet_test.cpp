#include "accrue/train/team/packet.h"

#include <cmath>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Two samples of three and two tokens, which are two grains.
TokenBatch small_batch() {
    return {
        .tokens = {5, 6, 7, 8, 9},
        .targets = {6, 7, -1, 9, -1},
        .positions = {0, 1, 2, 0, 1},
        .row_keys = {11, 12, 13, 14, 15},
        .segments = {{.first = 0, .length = 3}, {.first = 3, .length = 2}},
        .grains = {{.number = 4, .range = {.first = 0, .rows = 3}}, {.number = 7, .range = {.first = 3, .rows = 2}}}};
}

void expect_damage(const TokenBatch& batch, const std::string& words) {
    EXPECT_THAT([&] { (void)batch_of(decoded(encoded(packet_of(batch)))); }, ThrowsMessage<Error>(HasSubstr(words)));
}

TEST(PacketTest, ABatchComesAsItWas) {
    const TokenBatch batch = small_batch();
    const TokenBatch came = batch_of(decoded(encoded(packet_of(batch))));
    EXPECT_EQ(came.tokens, batch.tokens);
    EXPECT_EQ(came.targets, batch.targets);
    EXPECT_EQ(came.positions, batch.positions);
    EXPECT_EQ(came.row_keys, batch.row_keys);
    ASSERT_EQ(came.grains.size(), 2U);
    EXPECT_EQ(came.grains[1].number, 7);
    EXPECT_EQ(came.segments[1].length, 2);
}

// Whoever computes it takes rows by these numbers, and does not look again.
TEST(PacketTest, ABatchWhosePartsDoNotFitIsRefused) {
    TokenBatch batch = small_batch();
    batch.segments[1].length = 3;
    expect_damage(batch, "a segment of 3 rows begins at row 3 of 5");
    batch = small_batch();
    batch.segments.pop_back();
    expect_damage(batch, "of 5 rows, 3 are in segments and 5 in grains");
    batch = small_batch();
    batch.grains[1].range.first = -1;
    expect_damage(batch, "a grain of 2 rows begins at row -1 of 5, but should begin at 3");
    batch = small_batch();
    batch.grains[0].number = -1;
    expect_damage(batch, "a grain has the number -1");
    batch = small_batch();
    batch.tokens[2] = -7;
    expect_damage(batch, "row 2 has token -7");
    batch = small_batch();
    batch.positions[4] = 5;
    expect_damage(batch, "position 5");
}

TEST(PacketTest, NumbersThatNoRunHasAreRefused) {
    const Json window = json_of(Window{.first = {.epoch = 1, .place = 2}, .samples = 3});
    EXPECT_EQ(window_of(window).first.place, 2);
    const auto with = [&](const char* name, const Json& value) {
        Json changed = window;
        changed[name] = value;
        return changed;
    };
    for (const auto& [name, value] : std::vector<std::pair<const char*, Json>>{{"samples", 0},
                                                                               {"samples", -1},
                                                                               {"samples", 1e300},
                                                                               {"grain_samples", 0},
                                                                               {"grain_samples", "1"},
                                                                               {"samples", ~uint64_t{0}},
                                                                               {"ends_epoch", 1},
                                                                               {"first", {{"epoch", -1}, {"place", 0}}},
                                                                               {"first", nullptr}}) {
        EXPECT_THROW((void)window_of(with(name, value)), Error) << name << " " << value;
    }
    EXPECT_THROW((void)window_of(Json::array()), Error);
}

TEST(PacketTest, AGrainThatTheWindowHasNotIsNotAskedFor) {
    const BatchQuestion question{.window = {.first = {}, .samples = 5, .grain_samples = 2}, .grains = {0, 2}};
    EXPECT_EQ(batch_question_of(decoded(encoded(packet_of(question)))).grains, question.grains);
    const BatchQuestion wrong{.window = question.window, .grains = {3}};
    EXPECT_THAT([&] { (void)batch_question_of(packet_of(wrong)); },
                ThrowsMessage<Error>(HasSubstr("grain 3 of a window of 3")));
}

TEST(PacketTest, AReportComesAsItWasAlsoWhereANumberIsNotFinite) {
    StepReport report{.step = 3, .window = {.first = {}, .samples = 4}, .loss = 1.25, .tokens = 9, .rate = 0.1};
    report.grains = {.norm_mean = std::numeric_limits<double>::infinity(), .norm_variance = 2, .noise_scale = 0.3};
    const StepReport came = report_of(Json::parse(json_of(report).dump()));
    EXPECT_EQ(came.loss, 1.25);
    EXPECT_EQ(came.grains.noise_scale, 0.3);
    EXPECT_FALSE(std::isfinite(came.grains.norm_mean));
    EXPECT_FALSE(came.grad_norm.has_value());
}

TEST(PacketTest, WhatIsNoPacketIsAnErrorWhateverItIs) {
    const auto with_length = [](uint64_t length, const std::string& words) {
        return std::string(reinterpret_cast<const char*>(&length), sizeof length) + words;
    };
    const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
    for (const std::string& text : {std::string(), std::string("abc"), with_length(5, "{}"), with_length(~0ULL, "{}"),
                                    with_length(2, "{]"), with_length(deep.size(), deep)}) {
        EXPECT_THAT([&] { (void)decoded(text); }, ThrowsMessage<Error>(HasSubstr("is damaged")));
    }
    EXPECT_THROW((void)number_of(decoded(encoded({})), "tokens"), Error);
    EXPECT_THROW((void)batch_of(decoded(encoded({}))), Error);
}

}  // namespace
}  // namespace accrue
