#include "accrue/model/lookup.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(LookupTest, EntriesAscendAndPlacesKeepTheirOrder) {
    const std::vector<int32_t> ids = {7, 3, 7, 0, 3, 7};
    const Lookup lookup(ids);
    EXPECT_EQ(lookup.entries, (std::vector<int32_t>{0, 3, 7}));
    EXPECT_EQ(lookup.first_place, (std::vector<int32_t>{0, 1, 3, 6}));
    EXPECT_EQ(lookup.places, (std::vector<int32_t>{3, 1, 4, 0, 2, 5}));
}

TEST(LookupTest, EntriesCanBeNamedThatNoPlaceReads) {
    const Lookup lookup(std::vector<int32_t>{5, 2}, std::vector<int32_t>{5, 2, 9, 0});
    EXPECT_EQ(lookup.entries, (std::vector<int32_t>{0, 2, 5, 9}));
    EXPECT_EQ(lookup.first_place, (std::vector<int32_t>{0, 0, 1, 2, 2}));
    EXPECT_EQ(lookup.places, (std::vector<int32_t>{1, 0}));
}

TEST(LookupTest, NothingLooksUpNothing) {
    const Lookup lookup(std::span<const int32_t>{});
    EXPECT_TRUE(lookup.entries.empty());
    EXPECT_EQ(lookup.first_place, std::vector<int32_t>{0});
}

}  // namespace
}  // namespace accrue
