// The one table: every operation x every device x every instruction set of this machine, against the reference.
#include "accrue/kernels/conformance.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <ostream>

#include <gtest/gtest.h>

#include "accrue/kernels/gpus.h"
#include "accrue/kernels/one_by_one.h"

namespace accrue::conformance {

// How a failing test names its operation.
void PrintTo(const Operation& operation, std::ostream* out) {
    *out << operation.name;
}

namespace {

constexpr int64_t kArenaBytes = int64_t{160} << 20;

// A device under test with the threads and the memory it works with.
struct Device {
    Pool pool;
    Arena arena;
    std::unique_ptr<Kernels> kernels;

    Device(const std::string& name, int threads)
        : pool(threads),
          arena(name == "cuda" ? make_cuda_backing(0, kArenaBytes) : make_host_backing(kArenaBytes)),
          kernels(make_device(name, pool, arena)) {}
};

// A processor may lack instructions, and a machine a GPU; one that is there must work.
bool may_be_missing(const std::string& name) {
    return name != "cuda" || gpus_of_machine().found.empty();
}

double root_mean_square(const std::vector<double>& values) {
    double squares = 0;
    for (const double x : values) {
        squares += std::isfinite(x) ? x * x : 0;
    }
    return std::sqrt(squares / static_cast<double>(values.size()));
}

// The first place where `got` is farther from `wanted` than the outcome allows.
std::optional<size_t> first_difference(const Outcome& got, const Outcome& wanted) {
    const double typical = root_mean_square(wanted.values);
    for (size_t i = 0; i < wanted.values.size(); ++i) {
        const double want = wanted.values[i];
        const double room = wanted.relative * std::abs(want) + wanted.of_typical * typical + wanted.at_least;
        const bool same = got.values[i] == want || (std::isnan(got.values[i]) && std::isnan(want));
        if (!same && !(std::abs(got.values[i] - want) <= room)) {
            return i;
        }
    }
    return std::nullopt;
}

// Bf16 instructions multiply probabilities and gradients of scores that were rounded to bf16: each term is off by up to
// 2^-8 of itself, by 2^-9 on average, and an output in bf16 by as much again. Where terms cancel, one element is off by
// more, so it is the whole that is held to 2^-8, and an element to 1/8 of a typical one.
constexpr double kRoundedFactors = 0x1p-8;
constexpr double kRoundedElement = 0x1p-3;

void expect_close_in_the_mean(const Outcome& got, const Outcome& wanted) {
    std::vector<double> errors;
    for (size_t i = 0; i < got.values.size(); ++i) {
        errors.push_back(got.values[i] - wanted.values[i]);
    }
    EXPECT_LE(root_mean_square(errors), kRoundedFactors * root_mean_square(wanted.values) + wanted.at_least)
        << got.name;
}

// Which factors of a product a device rounds although they are never stored.
enum class Factors { exact, rounded_to_bf16 };

void expect_close(const Outcomes& got, Outcomes wanted, Factors factors) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].values.size(), wanted[i].values.size()) << got[i].name;
        if (wanted[i].mixes_probabilities && factors == Factors::rounded_to_bf16 && !got[i].values.empty()) {
            expect_close_in_the_mean(got[i], wanted[i]);
            wanted[i].of_typical = kRoundedElement;
        }
        if (const auto place = first_difference(got[i], wanted[i])) {
            ADD_FAILURE() << got[i].name << " at " << *place << " of " << got[i].values.size() << " is "
                          << got[i].values[*place] << ", and " << wanted[i].values[*place] << " by the reference";
        }
    }
}

bool same_bits(const double* a, const double* b, size_t count) {
    return count == 0 || std::memcmp(a, b, count * sizeof(double)) == 0;
}

using Row = std::tuple<std::string, Operation>;

class ConformanceTest : public testing::TestWithParam<Row> {
protected:
    void SetUp() override {
        try {
            device_.emplace(std::get<0>(GetParam()), 2);
        } catch (const Error& error) {
            if (!may_be_missing(std::get<0>(GetParam()))) {
                throw;
            }
            GTEST_SKIP() << error.what();
        }
    }
    [[nodiscard]] static const Operation& operation() { return std::get<1>(GetParam()); }
    [[nodiscard]] static std::vector<Case> cases() {
        return cases_of(operation(), std::get<0>(GetParam()) == "cuda" ? DeviceKind::cuda : DeviceKind::cpu);
    }

    std::optional<Device> device_;
};

TEST_P(ConformanceTest, EqualsTheReference) {
    Arena none(1);
    const std::unique_ptr<Kernels> reference = make_reference_kernels(none);
    const std::string& name = std::get<0>(GetParam());
    const Factors factors =
        name == "avx512-bf16" || name == "amx" || name == "cuda" ? Factors::rounded_to_bf16 : Factors::exact;
    const int64_t at_rest = device_->arena.bytes_in_use();
    for (const Case& tried : cases()) {
        SCOPED_TRACE(text_of(tried));
        expect_close(operation().run(*device_->kernels, tried), operation().run(*reference, tried), factors);
        EXPECT_EQ(device_->arena.bytes_in_use(), at_rest);
    }
}

TEST_P(ConformanceTest, BitsDoNotDependOnTheNumberOfThreads) {
    Device alone(std::get<0>(GetParam()), 1);
    Device many(std::get<0>(GetParam()), 3);
    for (const Case& tried : cases()) {
        if (tried.integers) {
            continue;  // whole numbers come out alike in any order
        }
        SCOPED_TRACE(text_of(tried));
        const Outcomes one = operation().run(*alone.kernels, tried);
        const Outcomes three = operation().run(*many.kernels, tried);
        for (size_t i = 0; i < one.size(); ++i) {
            EXPECT_TRUE(same_bits(one[i].values.data(), three[i].values.data(), one[i].values.size())) << one[i].name;
        }
    }
}

// Rows 8 to 70 alone must come out as they do among rows 0 to 70: nothing may leak from one micro-batch into another.
TEST_P(ConformanceTest, BitsOfARowDoNotDependOnTheOtherRows) {
    constexpr int64_t kFirst = 8;
    constexpr int64_t kRows = 71;
    for (Case tried : cases()) {
        if (tried.integers || (tried.rows != 7 && tried.rows != 65)) {
            continue;  // whole numbers come out alike in any order; the other cases differ in rows
        }
        tried.rows = kRows;
        Case part = tried;
        part.first_row = kFirst;
        part.rows = kRows - kFirst;
        SCOPED_TRACE(text_of(part));
        const Outcomes whole = operation().run(*device_->kernels, tried);
        const Outcomes some = operation().run(*device_->kernels, part);
        for (size_t i = 0; i < whole.size(); ++i) {
            const auto columns = static_cast<size_t>(whole[i].row_columns);
            if (columns > 0) {
                EXPECT_TRUE(same_bits(whole[i].values.data() + kFirst * columns, some[i].values.data(),
                                      static_cast<size_t>(part.rows) * columns))
                    << whole[i].name;
            }
        }
    }
}

class ExactSumTest : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        try {
            device_.emplace(GetParam(), 1);
        } catch (const Error& error) {
            if (!may_be_missing(GetParam())) {
                throw;
            }
            GTEST_SKIP() << error.what();
        }
    }

    // Adds `value` to a sum of one element that holds `start`, in units of 1, once by each kernel that adds.
    void add_by_each(float value, int64_t start, const std::function<void(int64_t, const GrainRecord&)>& expect) {
        const std::vector<float> factors{value, 1};  // not on the stack, which not every device can read
        const std::vector<int32_t> zero{0};
        const std::vector<int32_t> ends{0, 1};
        const View<const float> d_output(factors.data(), 1, 1);
        const View<const float> input(factors.data() + 1, 1, 1);
        const std::function<void(const SumView&)> kernels[] = {
            [&](const SumView& sum) {
                one_by_one::add_linear_weight_grad(*device_->kernels, d_output, input, WeightLayout::out_in, sum);
            },
            [&](const SumView& sum) { one_by_one::add_bias_grad(*device_->kernels, d_output, sum); },
            [&](const SumView& sum) {
                one_by_one::add_lookup_grad(*device_->kernels, d_output, {row_of(zero), row_of(ends), row_of(zero)}, {},
                                            sum);
            },
        };
        for (const auto& add : kernels) {
            const auto sum = std::make_unique<int64_t>(start);
            const auto record = std::make_unique<GrainRecord>();
            add({.kind = SumKind::exact,
                 .data = sum.get(),
                 .rows = 1,
                 .columns = 1,
                 .per_unit = 1,
                 .record = record.get()});
            expect(*sum, *record);
        }
    }

    std::optional<Device> device_;
};

TEST_P(ExactSumTest, WrapsAround) {
    static constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
    add_by_each(1, kLargest, [](int64_t sum, const GrainRecord&) { EXPECT_EQ(sum, -kLargest - 1); });
    add_by_each(-2, -kLargest, [](int64_t sum, const GrainRecord&) { EXPECT_EQ(sum, kLargest); });
}

// What becomes of the sum is not promised: the record says that the window must be replayed.
TEST_P(ExactSumTest, RecordsAValueThatFitsNoInteger) {
    for (const float value : {0x1p63F, -0x1p63F, 1e30F, -3e38F}) {
        add_by_each(value, 0, [&](int64_t, const GrainRecord& record) {
            EXPECT_EQ(record.largest, std::abs(value));
            EXPECT_FALSE(record.not_finite);
        });
    }
}

// Large and small numbers of units take different ways to an integer on some processors.
TEST_P(ExactSumTest, RoundsHalvesToEven) {
    for (const auto& [value, units] :
         std::initializer_list<std::pair<float, int64_t>>{{0.5F, 0},
                                                          {1.5F, 2},
                                                          {2.5F, 2},
                                                          {-0.5F, 0},
                                                          {-1.5F, -2},
                                                          {-2.5F, -2},
                                                          {0x1p22F + 0.5F, 1 << 22},
                                                          {0x1p23F + 1, (1 << 23) + 1},
                                                          {0x1p52F, int64_t{1} << 52},
                                                          {-0x1p62F, -(int64_t{1} << 62)}}) {
        add_by_each(value, 7, [&, units = units](int64_t sum, const GrainRecord&) { EXPECT_EQ(sum, 7 + units); });
    }
}

std::string name_of_device(const testing::TestParamInfo<std::string>& info) {
    return info.param == "avx512-bf16" ? "avx512_bf16" : info.param;
}

INSTANTIATE_TEST_SUITE_P(Device, ExactSumTest, testing::ValuesIn(devices_under_test()), name_of_device);

std::string name_of_row(const testing::TestParamInfo<Row>& info) {
    std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
    for (char& letter : name) {
        letter = letter == '-' ? '_' : letter;
    }
    return name;
}

INSTANTIATE_TEST_SUITE_P(Device, ConformanceTest,
                         testing::Combine(testing::ValuesIn(devices_under_test()),
                                          testing::ValuesIn(operations_under_test())),
                         name_of_row);

}  // namespace
}  // namespace accrue::conformance
