#include "accrue/dist/network_address.h"

#include <string>

#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

TEST(NetworkAddressTest, AnAddressIsReadAndWritten) {
    for (const char* const text : {"127.0.0.1:0", "coordinator.cluster:7700", "[fd00::7]:65535"}) {
        EXPECT_EQ(text_of(network_address_of(text)), text);
    }
    EXPECT_EQ(network_address_of("[::1]:80").host, "::1");
}

TEST(NetworkAddressTest, OnlyThisMachinesOwnAddressesAreLoopback) {
    for (const char* const text : {"127.0.0.1:1", "127.8.0.2:1", "[::1]:1"}) {
        EXPECT_TRUE(is_loopback(network_address_of(text))) << text;
    }
    for (const char* const text : {"0.0.0.0:1", "10.0.0.7:1", "[::]:1", "[fd00::7]:1", "192.0.2.1:1"}) {
        EXPECT_FALSE(is_loopback(network_address_of(text))) << text;
    }
}

TEST(NetworkAddressTest, CallersOfAnAddressAreHeardOnAllInterfacesOfItsKind) {
    EXPECT_EQ(text_of(every_interface_for({.host = "10.0.0.7", .port = 70})), "0.0.0.0:70");
    EXPECT_EQ(text_of(every_interface_for({.host = "fd00::7", .port = 70})), "[::]:70");
}

TEST(NetworkAddressTest, WhereOneCanListenThereIsNoReasonAgainstIt) {
    EXPECT_EQ(why_not_listening({.host = "127.0.0.1", .port = 0}), "");
    EXPECT_NE(why_not_listening({.host = "192.0.2.1", .port = 0}), "");
}

}  // namespace
}  // namespace accrue
