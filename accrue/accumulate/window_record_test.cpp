#include "accrue/accumulate/window_record.h"

#include <limits>

#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

WindowRecord some_record() {
    return {.window = {.first = {.epoch = 2, .place = 28},
                       .samples = 2,
                       .grain_samples = 1,
                       .ends_epoch = true,
                       .is_short = true},
            .step = 15,
            .units = Units({-40, -33, 7}),
            .replay = 1,
            .rate = 0.1 / 3,
            .beta2 = std::nextafter(0.95, 1.0),
            .rounding_seed = std::numeric_limits<uint64_t>::max() - 1,
            .counted_tokens = 31};
}

TEST(WindowRecordTest, TextAndBackKeepsEveryBit) {
    EXPECT_EQ(window_record_of(to_json(some_record())), some_record());
    WindowRecord plain = some_record();
    plain.counted_tokens = std::nullopt;
    plain.units = {};
    plain.rate = std::numeric_limits<double>::denorm_min();
    EXPECT_EQ(window_record_of(to_json(plain)), plain);
}

std::string error_of(const std::string& text) {
    try {
        (void)window_record_of(text);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(WindowRecordTest, DamageIsAnError) {
    const std::string whole = to_json(some_record());
    EXPECT_EQ(error_of(whole), "no error");
    for (const std::string& damaged : {std::string(), whole.substr(0, whole.size() / 2), std::string("[]"),
                                       std::string(R"({"step": "one"})"), to_json(WindowRecord{})}) {
        EXPECT_EQ(error_of(damaged).find("the record of a window is damaged: "), 0U) << damaged;
    }
}

}  // namespace
}  // namespace accrue
