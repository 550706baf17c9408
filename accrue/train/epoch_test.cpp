#include "accrue/train/epoch.h"

#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// Samples of 10 tokens each; the last may have fewer.
std::unique_ptr<Dataset> tokens_in_tens(int64_t tokens) {
    return dataset_of_tokens(std::vector<int32_t>(static_cast<size_t>(tokens + 1), 1), 10, "ones");
}

Settings windows_of(int64_t samples, int64_t tokens, WindowSize::Last last = WindowSize::Last::kept) {
    Settings settings;
    settings.window.samples = samples;
    settings.window.tokens = tokens;
    settings.window.last = last;
    settings.window.grain_samples = 1;
    return settings;
}

std::string error_of(const Settings& settings, const Dataset& data) {
    try {
        check_epoch(settings.window, data);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(EpochTest, TheWindowsThatAreTakenAreSaidInSamples) {
    EXPECT_EQ(epoch_text(windows_of(64, 0), *tokens_in_tens(1570)),
              "the data has 157 samples: each epoch is 2 windows of 64 and a last one of 29");
    EXPECT_EQ(epoch_text(windows_of(64, 0, WindowSize::Last::dropped), *tokens_in_tens(1570)),
              "the data has 157 samples: each epoch is 2 windows of 64, and 29 samples are left out");
    EXPECT_EQ(epoch_text(windows_of(100, 0), *tokens_in_tens(1570)),
              "the data has 157 samples: each epoch is 1 window of 100 and a last one of 57");
    EXPECT_EQ(epoch_text(windows_of(32, 0), *tokens_in_tens(1280)),
              "the data has 128 samples: each epoch is 4 windows of 32");
    EXPECT_EQ(epoch_text(windows_of(64, 0), *tokens_in_tens(30)),
              "the data has only 3 samples: every window is an epoch of 3, not 64");
}

TEST(EpochTest, TheWindowsThatAreTakenAreSaidInTokens) {
    EXPECT_EQ(epoch_text(windows_of(0, 25), *tokens_in_tens(110)),
              "the data has 110 counted tokens: the first epoch is 3 windows of at least 25 and a last one of 20");
    EXPECT_EQ(
        epoch_text(windows_of(0, 25, WindowSize::Last::dropped), *tokens_in_tens(110)),
        "the data has 110 counted tokens: the first epoch is 3 windows of at least 25, and 20 tokens are left out");
    EXPECT_EQ(epoch_text(windows_of(0, 4096), *tokens_in_tens(110)),
              "the data has only 110 counted tokens: every window is an epoch of 110, not 4096");
}

TEST(EpochTest, MoreDataThanCanBeCountedAtOnceIsNotTalkedAbout) {
    const auto data = tokens_in_tens(1'000'010);
    EXPECT_EQ(epoch_text(windows_of(0, 25), *data), "");
    EXPECT_EQ(epoch_text(windows_of(1000, 0), *data),
              "the data has 100001 samples: each epoch is 100 windows of 1000 and a last one of 1");
}

TEST(EpochTest, DroppingTheOnlyWindowIsRefusedWithBothNumbers) {
    EXPECT_EQ(
        error_of(windows_of(64, 0, WindowSize::Last::dropped), *tokens_in_tens(30)),
        "window.samples is 64, but the data has only 3 samples, and window.last = \"drop\" leaves out a window "
        "that is not full: nothing would be trained. Set window.last to \"short\", or window.samples to at most 3.");
    EXPECT_EQ(error_of(windows_of(0, 111, WindowSize::Last::dropped), *tokens_in_tens(110)),
              "window.tokens is 111, but the data has only 110 counted tokens, and window.last = \"drop\" leaves out a "
              "window that is not full: nothing would be trained. Set window.last to \"short\", or window.tokens to at "
              "most 110.");
    EXPECT_EQ(error_of(windows_of(3, 0, WindowSize::Last::dropped), *tokens_in_tens(30)), "");
    EXPECT_EQ(error_of(windows_of(0, 110, WindowSize::Last::dropped), *tokens_in_tens(110)), "");
    EXPECT_EQ(error_of(windows_of(64, 0, WindowSize::Last::kept), *tokens_in_tens(30)), "");
}

}  // namespace
}  // namespace accrue
