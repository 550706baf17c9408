#include "accrue/base/bytes.h"

#include <limits>

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(BytesTest, FormatsWithTheLargestUnitThatFits) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1024), "1.00 KiB");
    EXPECT_EQ(format_bytes(1536LL << 20), "1.50 GiB");
    EXPECT_EQ(format_bytes(-1536), "-1.50 KiB");
    EXPECT_EQ(format_bytes((1LL << 20) - 1), "1.00 MiB");
    EXPECT_EQ(format_bytes(std::numeric_limits<int64_t>::max()), "8.00 EiB");
}

TEST(BytesTest, ParsesBinaryAndDecimalUnits) {
    EXPECT_EQ(parse_bytes("16GiB"), 16LL << 30);
    EXPECT_EQ(parse_bytes("1.5 MiB"), 3LL << 19);
    EXPECT_EQ(parse_bytes("2gb"), 2'000'000'000);
    EXPECT_EQ(parse_bytes("3kB"), 3000);
    EXPECT_EQ(parse_bytes("4096"), 4096);
    EXPECT_EQ(parse_bytes("7 B"), 7);
    EXPECT_EQ(parse_bytes("0"), 0);
}

TEST(BytesTest, WhatItFormatsItParses) {
    for (const int64_t bytes : {int64_t{5}, int64_t{1024}, int64_t{1536} << 20, int64_t{3} << 40}) {
        EXPECT_EQ(parse_bytes(format_bytes(bytes)), bytes);
    }
}

TEST(BytesTest, RefusesEverythingElse) {
    for (const char* text : {"", "GiB", "auto", "-1", "-0.5GiB", "1..5GiB", "16 Gi", "16G", "16GiBs", "16  GiB", "1e3",
                             "nan", "inf", "8EiB", "99999999999999999999", " 16GiB", "0x10"}) {
        EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
    }
}

}  // namespace
}  // namespace accrue
