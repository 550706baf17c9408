#include "accrue/train/team/worker_share.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/dist/exchange_cost.h"
#include "accrue/model/families.h"
#include "accrue/model/parameters.h"

namespace accrue {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMachineBytes = int64_t{1} << 30;

MemoryBound machine() {
    return {.bytes = kMachineBytes,
            .reason = "the machine can give 1.00 GiB",
            .address_bytes = std::numeric_limits<int64_t>::max()};
}

class WorkerShareTest : public ::testing::Test {
protected:
    std::shared_ptr<const ModelSpec> model_ = known_families().shaped("tiny", {.layers = 2}, {});
    int64_t exchange_ = cost_of_exchange(model_->parameters().gradient_elements, 4).held_bytes;
};

TEST_F(WorkerShareTest, WorkersOfAMachineShareItOut) {
    const Settings settings =
        settings_of_worker({}, machine(), *model_, {.workers = 4, .of_a_machine = 4, .threads = 3});
    ASSERT_TRUE(settings.compute.memory);
    EXPECT_EQ(settings.compute.memory->bytes, kMachineBytes / 4 - exchange_);
    EXPECT_EQ(settings.compute.threads, 3);
}

TEST_F(WorkerShareTest, AMachineOfItsOwnIsAllItsButForTheExchange) {
    const WorkerMemory memory = memory_of_worker({}, machine(), *model_, {.workers = 4});
    EXPECT_EQ(memory.part.bytes, kMachineBytes);
    EXPECT_EQ(memory.part.reason, machine().reason);
    EXPECT_EQ(memory.exchange_bytes, exchange_);
    EXPECT_EQ(memory_of_worker({}, machine(), *model_, {}).exchange_bytes, 0) << "alone, nothing is exchanged";
}

TEST_F(WorkerShareTest, WhatTheExchangeAloneFillsIsRefused) {
    Settings settings;
    settings.compute.memory = parse_byte_size("100MiB");
    try {
        (void)memory_of_worker(settings, machine(), *model_, {.workers = 4, .of_a_machine = 4});
        FAIL() << "25 MiB are not enough";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(),
                    HasSubstr("of which each of 4 workers has 25.00 MiB, but the exchange of their sums alone"));
    }
}

}  // namespace
}  // namespace accrue
