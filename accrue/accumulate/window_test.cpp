#include "accrue/accumulate/window.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

int64_t one(int64_t) {
    return 1;
}

TEST(WindowTest, GrainsCoverTheWindowOnceWhateverDividesWhat) {
    for (int64_t samples = 1; samples <= 13; ++samples) {
        for (int64_t grain_samples = 1; grain_samples <= 7; ++grain_samples) {
            const Window window{.first = {.epoch = 0, .place = 5}, .samples = samples, .grain_samples = grain_samples};
            int64_t next = 5;
            for (int64_t grain = 0; grain < window.grains(); ++grain) {
                EXPECT_EQ(window.places_of(grain).first, next);
                EXPECT_GE(window.places_of(grain).count, 1);
                next += window.places_of(grain).count;
            }
            EXPECT_EQ(next, 5 + samples);
        }
    }
}

TEST(WindowTest, WindowsNeverCrossAnEpoch) {
    const WindowSize size{.samples = 4, .tokens = 0, .grain_samples = 2};
    DataPosition position;
    std::vector<int64_t> lengths;
    while (position.epoch < 2) {
        const Window window = window_at(position, 10, size, one);
        lengths.push_back(window.samples);
        position = window.next();
    }
    EXPECT_EQ(lengths, (std::vector<int64_t>{4, 4, 2, 4, 4, 2}));
    EXPECT_EQ(position, (DataPosition{.epoch = 2, .place = 0}));
}

TEST(WindowTest, AWindowInTokensClosesAtTheSampleThatReachesIt) {
    const std::vector<int64_t> weights = {3, 0, 5, 2, 9, 1};
    const auto weight_at = [&](int64_t place) { return weights[static_cast<size_t>(place)]; };
    const WindowSize size{.samples = 0, .tokens = 8, .grain_samples = 2};
    const Window first = window_at({}, 6, size, weight_at);
    EXPECT_EQ(first.samples, 3);
    const Window second = window_at(first.next(), 6, size, weight_at);
    EXPECT_EQ(second.samples, 2);
    const Window last = window_at(second.next(), 6, size, weight_at);
    EXPECT_EQ(last.samples, 1);
    EXPECT_TRUE(last.ends_epoch);
}

// Samples of the windows in the first two epochs, as text: "4 4" with s behind a short one and | at an epoch's end.
std::string windows_of(int64_t epoch_samples, const WindowSize& size, const std::vector<int64_t>& weights) {
    std::string text;
    for (DataPosition position; position.epoch < 2;) {
        const Window window = window_at(position, epoch_samples, size,
                                        [&](int64_t place) { return weights.at(static_cast<size_t>(place)); });
        text += std::to_string(window.samples) + (window.is_short ? "s" : "") + (window.ends_epoch ? "|" : " ");
        position = window.next();
    }
    return text;
}

TEST(WindowTest, OnlyAWindowThatTheEpochCouldNotFillIsShort) {
    EXPECT_EQ(windows_of(10, {.samples = 4}, {}), "4 4 2s|4 4 2s|");
    EXPECT_EQ(windows_of(8, {.samples = 4}, {}), "4 4|4 4|");
    EXPECT_EQ(windows_of(3, {.samples = 64}, {}), "3s|3s|");
    const std::vector<int64_t> weights = {3, 0, 5, 2, 9, 1};
    EXPECT_EQ(windows_of(6, {.tokens = 8}, weights), "3 2 1s|3 2 1s|");
    EXPECT_EQ(windows_of(5, {.tokens = 8}, weights), "3 2|3 2|") << "11 of 8 tokens is more than asked, not less";
}

TEST(WindowTest, AnEpochEndsWithItsLastWholeWindowWhereTheRestIsDropped) {
    constexpr auto kDropped = WindowSize::Last::dropped;
    EXPECT_EQ(windows_of(10, {.samples = 4, .last = kDropped}, {}), "4 4|4 4|");
    EXPECT_EQ(windows_of(8, {.samples = 4, .last = kDropped}, {}), "4 4|4 4|");
    EXPECT_EQ(windows_of(4, {.samples = 4, .last = kDropped}, {}), "4|4|");
    const std::vector<int64_t> weights = {3, 0, 5, 2, 9, 1};
    EXPECT_EQ(windows_of(6, {.tokens = 8, .last = kDropped}, weights), "3 2|3 2|");
    EXPECT_EQ(windows_of(6, {.tokens = 20, .last = kDropped}, weights), "6|6|");
    EXPECT_EQ(windows_of(6, {.tokens = 19, .last = kDropped}, weights), "5|5|");
}

TEST(WindowTest, CutKeepsEveryGrainInOrder) {
    const auto batches = cut({2, 3, 5, 7, 11}, 2);
    ASSERT_EQ(batches.size(), 3U);
    EXPECT_EQ(batches[0].grains, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(batches[2].grains, (std::vector<int64_t>{11}));
    EXPECT_TRUE(cut({}, 3).empty());
}

}  // namespace
}  // namespace accrue
