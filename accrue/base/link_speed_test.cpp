#include "accrue/base/link_speed.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(LinkSpeedTest, ParsesBitsASecondAsPeopleWriteThem) {
    EXPECT_EQ(parse_link_speed("1Gbit"), 1e9);
    EXPECT_EQ(parse_link_speed("100Mbit"), 100e6);
    EXPECT_EQ(parse_link_speed("10Gbit/s"), 10e9);
    EXPECT_EQ(parse_link_speed("2.5 gbps"), 2.5e9);
    EXPECT_EQ(parse_link_speed("56 kbit/s"), 56e3);
    EXPECT_EQ(parse_link_speed("1TBIT"), 1e12);
    EXPECT_EQ(parse_link_speed("9600bit"), 9600);
}

TEST(LinkSpeedTest, RefusesEverythingElse) {
    for (const char* text : {"",        "1",       "fast",   "Gbit",      "0Gbit",   "-1Gbit", "1 GB/s",
                             "1GB",     "1G",      "1GiB",   "1 Gbit /s", "1  Gbit", " 1Gbit", "1Gbits",
                             "1e3Mbit", "nan bit", "infbit", "0.0001bit", "1Pbit",   "1,5Gbit"}) {
        EXPECT_EQ(parse_link_speed(text), std::nullopt) << text;
    }
    EXPECT_EQ(parse_link_speed(std::string(400, '9') + "Tbit"), std::nullopt);
}

TEST(LinkSpeedTest, WhatItFormatsItParses) {
    for (const double speed : {1.0, 9600.0, 950e3, 100e6, 1e9, 2.5e9, 400e9, 1e12}) {
        EXPECT_EQ(parse_link_speed(format_link_speed(speed)), speed);
    }
    EXPECT_EQ(format_link_speed(1e9), "1 Gbit/s");
    EXPECT_EQ(format_link_speed(999.99e6), "1 Gbit/s");
    EXPECT_EQ(format_link_speed(50e6), "50 Mbit/s");
}

}  // namespace
}  // namespace accrue
