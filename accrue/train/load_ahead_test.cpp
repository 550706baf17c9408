#include "accrue/train/load_ahead.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// Only a test that fails waits so long.
constexpr std::chrono::seconds kLongEnough{60};

constexpr int64_t kWindowGrains = 3;

Window window_from(const DataPosition& position) {
    return {.first = position, .samples = kWindowGrains, .grain_samples = 1};
}

// Gives the places of the grains as tokens, but only as many loads as the test lets through.
class HeldSource final : public BatchSource {
public:
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        std::unique_lock lock(mutex_);
        const int64_t number = started_++;
        changed_.notify_all();
        changed_.wait(lock, [&] { return number < allowed_; });
        TokenBatch batch;
        for (const int64_t grain : grains) {
            batch.tokens.push_back(static_cast<int32_t>(window.first.place + grain));
        }
        if (batch.tokens.front() == broken_place_) {
            throw Error("the disk is gone");
        }
        return batch;
    }

    [[nodiscard]] int64_t counted_tokens(const Window& window) const override { return window.samples; }
    void announce(const Window& /*window*/, const LikelyGrains& /*next*/) const override {}
    void allow(int64_t loads) {
        const std::lock_guard lock(mutex_);
        allowed_ = loads;
        changed_.notify_all();
    }
    void break_at(int32_t place) { broken_place_ = place; }
    [[nodiscard]] bool starts(int64_t loads) const {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, kLongEnough, [&] { return started_ >= loads; });
    }
    [[nodiscard]] int64_t started() const {
        const std::lock_guard lock(mutex_);
        return started_;
    }

private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    mutable int64_t started_ = 0;
    int64_t allowed_ = 1'000'000;
    int32_t broken_place_ = -1;
};

using Grains = std::vector<int64_t>;
using Of = LikelyGrains::Of;

// Loads grains of the window at a place, and announces what is loaded next, as a step does.
std::vector<int32_t> places(const LoadAhead& batches, int64_t first, const Grains& grains, const LikelyGrains& next) {
    const Window window = window_from({.place = first});
    const TokenBatch batch = batches.load(window, grains);
    batches.announce(window, next);
    return batch.tokens;
}

TEST(LoadAheadTest, ABatchIsGivenWhileTheNextOneIsStillLoading) {
    HeldSource source;
    source.allow(1);
    const LoadAhead batches(source, window_from);
    EXPECT_EQ(places(batches, 0, {0, 1}, {Of::this_window, {2}}), (std::vector<int32_t>{0, 1}));
    EXPECT_TRUE(source.starts(2)) << "the second batch is loaded before anybody asks";
    source.allow(2);
    EXPECT_EQ(places(batches, 0, {2}, {Of::next_window, {0, 1}}), (std::vector<int32_t>{2}));
    EXPECT_TRUE(source.starts(3)) << "so is the first batch of the next window";
    source.allow(1'000'000);
}

TEST(LoadAheadTest, AnUndisturbedRunLoadsNothingTwice) {
    HeldSource source;
    const LoadAhead batches(source, window_from);
    for (int32_t first = 0; first < 30; first += kWindowGrains) {
        EXPECT_EQ(places(batches, first, {0, 1}, {Of::this_window, {2}}), (std::vector<int32_t>{first, first + 1}));
        EXPECT_EQ(places(batches, first, {2}, {Of::next_window, {0, 1}}), (std::vector<int32_t>{first + 2}));
    }
    ASSERT_TRUE(source.starts(21));
    EXPECT_EQ(source.started(), 21) << "20 batches, and one ahead";
}

TEST(LoadAheadTest, GrainsThatDoNotFollowEachOtherAreLoadedAheadAsTheyWereAnnounced) {
    HeldSource source;
    const LoadAhead batches(source, window_from);
    EXPECT_EQ(places(batches, 0, {2}, {Of::this_window, {0}}), (std::vector<int32_t>{2}));
    EXPECT_EQ(places(batches, 0, {0}, {Of::next_window, {1, 2, 3, 4}}), (std::vector<int32_t>{0}));
    EXPECT_EQ(places(batches, 3, {1, 2}, {Of::next_window, {0}}), (std::vector<int32_t>{4, 5}))
        << "of a next window, grains that it does not have are left out";
    ASSERT_TRUE(source.starts(4));
    EXPECT_EQ(source.started(), 4) << "3 batches, and one ahead";
}

TEST(LoadAheadTest, AWrongGuessGivesWhatWasAskedFor) {
    HeldSource source;
    const LoadAhead batches(source, window_from);
    const LikelyGrains rest{Of::this_window, {1, 2}};
    EXPECT_EQ(places(batches, 0, {0}, rest), (std::vector<int32_t>{0}));
    EXPECT_EQ(places(batches, 0, {0, 1}, rest), (std::vector<int32_t>{0, 1}));
    EXPECT_EQ(places(batches, 0, {2}, rest), (std::vector<int32_t>{2})) << "grain 1 was taken back";
    EXPECT_EQ(places(batches, 0, {0, 1}, rest), (std::vector<int32_t>{0, 1})) << "a replay";
    EXPECT_EQ(places(batches, 6, {1}, rest), (std::vector<int32_t>{7})) << "another window, resumed in the middle";
}

TEST(LoadAheadTest, AnErrorComesOnlyToWhoAsksForThatBatch) {
    HeldSource source;
    source.break_at(1);
    const LoadAhead batches(source, window_from);
    const LikelyGrains broken{Of::this_window, {1}};
    EXPECT_EQ(places(batches, 0, {0}, broken), (std::vector<int32_t>{0}));
    EXPECT_EQ(places(batches, 0, {2}, broken), (std::vector<int32_t>{2}));
    EXPECT_EQ(places(batches, 0, {0}, broken), (std::vector<int32_t>{0}));
    EXPECT_THROW((void)places(batches, 0, {1}, broken), Error);
}

}  // namespace
}  // namespace accrue
