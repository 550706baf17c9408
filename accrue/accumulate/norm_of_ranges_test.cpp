#include "accrue/accumulate/norm_of_ranges.h"

#include <cmath>

#include <gtest/gtest.h>

#include "accrue/base/pool.h"
#include "accrue/base/random.h"
#include "accrue/kernels/device.h"

namespace accrue {
namespace {

TEST(NormOfRangesTest, RangesGiveTheBitsOfTheWholeNorm) {
    const std::vector<SumTensor> tensors = {{.offset = 0, .rows = 1, .columns = 1},
                                            {.offset = 16, .rows = 5, .columns = 20'011},
                                            {.offset = 100'080, .rows = 1, .columns = 77}};
    constexpr int64_t kElements = 100'160;
    Pool pool(2);
    Arena arena(int64_t{8} << 20);
    const auto kernels = make_kernels({.name = DeviceName(DeviceKind::cpu)}, pool, arena);
    GradientSum sum(tensors, kElements, SumKind::exact, *kernels);
    sum.open(1, Units::first(std::vector<float>{1.0F, 0.001F, 30.0F}));
    std::vector<int64_t> totals;
    for (int64_t i = 0; i < kElements; ++i) {
        totals.push_back(static_cast<int64_t>(mix(static_cast<uint64_t>(i))) >> 20);
    }
    GrainLedger ledger(1, std::ssize(tensors));
    sum.replace(totals, ledger);
    const double factor = 1.0 / 37;  // as if so many tokens were counted
    std::vector<MeanView> means;
    for (int64_t tensor = 0; tensor < std::ssize(tensors); ++tensor) {
        means.push_back(sum.sum_over_tokens(tensor));
        means.back().factor *= factor;
    }
    const auto result = take_matrix<double>(arena, 1, 1);
    kernels->run(op::SquaredNorm{.gradients = means, .result = result.view});
    const double whole = std::sqrt(downloaded(*kernels, result.view).front());

    const auto flat = flat_tensors(sum);
    for (const int64_t count : {1, 2, 3, 5, 8}) {
        std::vector<double> squares;
        for (const ElementRange& range : cut_into_ranges(flat, kElements, count)) {
            const auto some =
                std::span(totals).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
            for (const double square : sum.squares_of(range, some, 37)) {
                squares.push_back(square);
            }
        }
        EXPECT_EQ(norm_of_squares(flat, squares), whole) << count << " ranges";
        squares.pop_back();
        EXPECT_THROW((void)norm_of_squares(flat, squares), Error);
    }
}

}  // namespace
}  // namespace accrue
