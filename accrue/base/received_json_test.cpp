#include "accrue/base/received_json.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

std::string nested(size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
}

TEST(ReceivedJsonTest, WhatMessagesHoldIsRead) {
    EXPECT_EQ(received_json(R"({"b": [1, {"c": null}], "a": "é"})").dump(), R"({"b":[1,{"c":null}],"a":"é"})");
    EXPECT_EQ(received_json(nested(30)).dump(), nested(30));
    EXPECT_THROW((void)received_json("{"), nlohmann::json::exception);
}

// To print it would need more stack than a thread has.
TEST(ReceivedJsonTest, AMillionLevelsAreRefused) {
    EXPECT_THAT([] { (void)received_json(nested(1'000'000)); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr("nested deeper than 32 levels")));
}

}  // namespace
}  // namespace accrue
