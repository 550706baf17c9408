#include "accrue/accumulate/window_record.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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
            .loss_scale = 4096,
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

TEST(WindowRecordTest, ARecordThatTellsNoLossScaleHasNone) {
    auto json = nlohmann::ordered_json::parse(to_json(some_record()));
    json.erase("loss_scale");
    EXPECT_EQ(window_record_of(json.dump()).loss_scale, 1);
}

std::string error_of_record(const std::string& text) {
    try {
        (void)window_record_of(text);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(WindowRecordTest, DamageIsAnError) {
    const std::string whole = to_json(some_record());
    EXPECT_EQ(error_of_record(whole), "no error");
    for (const std::string& damaged :
         {std::string(), whole.substr(0, whole.size() / 2), std::string("[]"), std::string(R"({"step": "one"})")}) {
        EXPECT_EQ(error_of_record(damaged).find("the record of a window is damaged: "), 0U) << damaged;
    }
}

TEST(WindowRecordTest, NumbersOfNoWindowAreAnError) {
    const auto with = [](const std::string& name, const std::string& value) {
        auto json = nlohmann::ordered_json::parse(to_json(some_record()));
        json[name] = nlohmann::ordered_json::parse(value);
        return error_of_record(json.dump());
    };
    EXPECT_EQ(with("samples", "0"),
              "the record of a window is damaged: samples is 0, not a whole number from 1 to 281474976710656");
    EXPECT_EQ(with("units", "[1, 5000]"),
              "the record of a window is damaged: a unit is 5000, not a whole number from -4096 to 4096");
    EXPECT_EQ(with("loss_scale", "48"),
              "the record of a window is damaged: loss_scale is 48, not a power of two from 1 to 32768");
    for (const auto& [name, value] : {std::pair{"step", "1e300"},
                                      {"loss_scale", "0"},
                                      {"loss_scale", "65536"},
                                      {"loss_scale", "0.5"},
                                      {"place", "18446744073709551615"},
                                      {"replay", "-1"},
                                      {"rate", "null"},
                                      {"rounding_seed", "0.5"},
                                      {"units", "[0.5]"},
                                      {"units", "[18446744073709551615]"},
                                      {"is_short", "1"}}) {
        EXPECT_EQ(with(name, value).find("the record of a window is damaged: "), 0U) << name;
    }
}

}  // namespace
}  // namespace accrue
