#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/random.h"
#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/kernels/kernels.h"

// What the tests of CPU products share.
namespace accrue::cpu {

// A matrix of its own memory with some columns between its rows that belong to nobody.
struct Matrix {
    DType dtype;
    int64_t rows;
    int64_t columns;
    int64_t stride;
    std::vector<float> floats;
    std::vector<Bf16> halves;

    Matrix(DType dtype_, int64_t rows_, int64_t columns_, int64_t gap = 3)
        : dtype(dtype_), rows(rows_), columns(columns_), stride(columns_ + gap) {
        // One element more, so that the first one is aligned to nothing but itself.
        floats.resize(dtype == DType::fp32 ? static_cast<size_t>(rows * stride + 1) : 0);
        halves.resize(dtype == DType::bf16 ? static_cast<size_t>(rows * stride + 1) : 0);
    }
    [[nodiscard]] AnyView view() {
        return dtype == DType::fp32 ? AnyView(floats.data() + 1, dtype, rows, columns, stride)
                                    : AnyView(halves.data() + 1, dtype, rows, columns, stride);
    }
    [[nodiscard]] float at(int64_t r, int64_t c) const {
        const auto place = static_cast<size_t>(r * stride + c + 1);
        return dtype == DType::fp32 ? floats[place] : static_cast<float>(halves[place]);
    }
    void set(int64_t r, int64_t c, float value) {
        const auto place = static_cast<size_t>(r * stride + c + 1);
        if (dtype == DType::fp32) {
            floats[place] = value;
        } else {
            halves[place] = Bf16(value);
        }
    }
};

inline Matrix random_matrix(DType dtype, int64_t rows, int64_t columns, uint64_t seed) {
    Matrix matrix(dtype, rows, columns);
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
            matrix.set(r, c, normal(mix(seed, static_cast<uint64_t>(r), static_cast<uint64_t>(c))));
        }
    }
    return matrix;
}

inline constexpr DType kBoth[] = {DType::fp32, DType::bf16};
inline constexpr WeightLayout kLayouts[] = {WeightLayout::out_in, WeightLayout::in_out};

struct Extents {
    int64_t rows;
    int64_t in;
    int64_t out;
};

// Every instruction set, as far as this processor has it.
class InstructionSetsTest : public testing::TestWithParam<InstructionSet> {
protected:
    void SetUp() override {
        if (GetParam() > best_instruction_set()) {
            GTEST_SKIP() << "this processor lacks " << name_of(GetParam());
        }
    }

    Context context(int threads = 2) {
        if (!pool_ || pool_->threads() != threads) {
            pool_ = std::make_unique<Pool>(threads);
        }
        return {*pool_, arena_, GetParam()};
    }

    Arena arena_{int64_t{64} << 20};
    std::unique_ptr<Pool> pool_;
};

// The name of a parameter in a test's name, which takes no hyphen.
inline std::string test_name(const testing::TestParamInfo<InstructionSet>& info) {
    std::string name(name_of(info.param));
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

// The sets to run a test with.
inline auto every_set() {
    return testing::Values(InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512,
                           InstructionSet::avx512_bf16, InstructionSet::amx);
}

// One product and the sum of its terms' sizes, for a tolerance: each of k additions errs by at most 2^-24 of what is
// there.
struct Checked {
    double value = 0;
    double size = 0;
    void add(double x, double y) {
        value += x * y;
        size += std::abs(x * y);
    }
    void expect_near(float found, int64_t depth, DType dtype) const {
        const double stored = dtype == DType::bf16 ? 0x1p-8 * std::abs(value) : 0;
        EXPECT_NEAR(found, value, size * static_cast<double>(depth + 2) * 0x1p-24 + stored + 1e-37);
    }
};

// The text of the error that a call throws.
template <class Call>
std::string error_of(const Call& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

}  // namespace accrue::cpu
