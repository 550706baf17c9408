#include "accrue/train/team/worker_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/dist/exchange_cost.h"
#include "accrue/model/families.h"
#include "accrue/model/parameters.h"

namespace accrue {
namespace {

using ::testing::HasSubstr;

class WorkerShareTest : public ::testing::Test {
protected:
    std::shared_ptr<const ModelSpec> model_ = known_families().shaped("tiny", {.layers = 2}, {});
    int64_t exchange_ = cost_of_exchange(model_->parameters().gradient_elements, 4).held_bytes;
};

TEST_F(WorkerShareTest, AnExchangeKeepsItsPartOfTheMemory) {
    const Settings settings = settings_within({.bytes = exchange_ + 1000, .threads = 3, .reason = ""}, {}, *model_);
    ASSERT_TRUE(settings.compute.memory);
    EXPECT_EQ(settings.compute.memory->bytes, 1000);
    EXPECT_EQ(settings.compute.threads, 3);
}

TEST_F(WorkerShareTest, WhatTheExchangeAloneFillsIsRefused) {
    try {
        (void)settings_within({.bytes = exchange_, .threads = 1, .reason = "the machine can give little"}, {}, *model_);
        FAIL() << "nothing is left";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("the machine can give little, but the exchange of their sums alone takes"));
    }
}

}  // namespace
}  // namespace accrue
