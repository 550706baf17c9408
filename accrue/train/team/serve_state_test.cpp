#include "accrue/train/team/serve_state.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/kernels/device.h"
#include "accrue/model/families.h"
#include "accrue/train/team/state_parts.h"

namespace accrue {
namespace {

class ServeStateTest : public testing::Test {
protected:
    static Settings small_job() {
        Settings settings;
        settings.window.grain_samples = 1;
        return settings;
    }
    [[nodiscard]] std::vector<std::byte> bytes_of_part(size_t part) {
        const std::span<std::byte> place = state_parts(engine_)[part];
        std::vector<std::byte> bytes(place.size());
        download(*kernels_, static_cast<const std::byte*>(place.data()), std::span(bytes));
        return bytes;
    }

    Pool pool_{1};
    DeviceChoice device_ = device_of({});
    Arena arena_{make_backing(device_, int64_t{256} << 20)};
    std::unique_ptr<Kernels> kernels_ = make_kernels(device_, pool_, arena_);
    Engine engine_{small_job(), known_families().preset("tiny"), 32, *kernels_};
};

// A worker may have the moments of a later step than the one that its leader goes back to, whose beginning has none to write.
TEST_F(ServeStateTest, AStateThatBeginsHasNoMomentsOfAnEarlierOne) {
    const auto parts = state_parts(engine_);
    const size_t moments = parts_between_windows(parts);
    ASSERT_GT(moments, 1U);
    for (size_t part = 0; part < moments; ++part) {
        const std::vector<std::byte> left(parts[part].size(), std::byte{0x3f});
        upload(*kernels_, std::span<const std::byte>(left), parts[part].data());
    }
    (void)obey_leader(engine_, {.words = {{"do", "begin"}, {"number", 1}}});
    for (size_t part = 1; part < moments; ++part) {
        EXPECT_TRUE(std::ranges::all_of(bytes_of_part(part), [](std::byte byte) { return byte == std::byte{0}; }))
            << part;
    }
    EXPECT_TRUE(std::ranges::all_of(bytes_of_part(0), [](std::byte byte) { return byte == std::byte{0x3f}; }));
}

}  // namespace
}  // namespace accrue
