#include <gtest/gtest.h>

#include "accrue/kernels/conformance.h"

// The backward pass of norms shares out rows otherwise where there are few of them: two teams of a block take turns. A grain must
// not see it.
namespace accrue::conformance {
namespace {

constexpr int64_t kGrainRows = 517;  // in blocks of 8 rows, the last of which is not whole

// What a pass over some grains, of kGrainRows each, leaves of the first.
struct FirstGrain {
    std::vector<double> stream;
    std::vector<double> copy;
    std::vector<std::vector<double>> sums;
    std::vector<double> squares;

    bool operator==(const FirstGrain&) const = default;
};

FirstGrain first_of(Kernels& kernels, int64_t grains, int64_t width, DType dtype) {
    const Case tried{.dtype = dtype, .output_dtype = dtype, .rows = grains * kGrainRows, .in = width};
    Matrix d_output = Matrix::random(tried, dtype, 1, tried.rows, width);
    Matrix input = Matrix::random(tried, DType::fp32, 2, tried.rows, width);
    Matrix gain = Matrix::random(tried, DType::fp32, 3, 1, width);
    Matrix mean = Matrix::random(tried, DType::fp32, 4, tried.rows, 1);
    Matrix inverse = Matrix::random(tried, DType::fp32, 5, tried.rows, 1);
    Matrix stream = Matrix::random(tried, DType::fp32, 6, tried.rows, width);
    Matrix copy = Matrix::poison(tried, dtype, tried.rows, width);
    constexpr size_t kSums = 3;  // of gain, bias and copy
    std::vector<std::vector<Sum>> sums(kSums);
    std::vector<std::vector<SumView>> views(kSums);
    std::vector<RowRange> ranges;
    for (int64_t grain = 0; grain < grains; ++grain) {
        ranges.push_back({.first = grain * kGrainRows, .rows = kGrainRows});
        for (size_t i = 0; i < kSums; ++i) {
            sums[i].emplace_back(tried, 7 + i, 1, width);
        }
    }
    for (size_t i = 0; i < kSums; ++i) {
        for (const Sum& sum : sums[i]) {
            views[i].push_back(sum.view());
        }
    }
    kernels.run(op::LayerNormBackward{.d_output = d_output.any(),
                                      .input = input.floats(),
                                      .gain = gain.floats(),
                                      .mean = mean.floats(),
                                      .inverse_deviation = inverse.floats(),
                                      .d_stream = stream.floats(),
                                      .grains = ranges,
                                      .d_gain = views[0],
                                      .d_bias = views[1],
                                      .copy = copy.any(),
                                      .copy_sums = views[2]});
    kernels.run(op::CompleteSums{});
    const auto rows_of = [&](const Matrix& matrix) {
        std::vector<double> values = matrix.values();
        values.resize(static_cast<size_t>(kGrainRows * width));
        return values;
    };
    FirstGrain found{.stream = rows_of(stream), .copy = rows_of(copy), .sums = {}, .squares = {}};
    for (const std::vector<Sum>& of_grains : sums) {
        found.sums.push_back(of_grains.front().values());
        found.squares.push_back(of_grains.front().record().squares);
    }
    return found;
}

TEST(NormTurnsTest, AGrainAloneHasTheBitsThatItHasAmongOthers) {
    Pool pool(1);
    Arena arena(make_cuda_backing(0, int64_t{256} << 20));
    const auto kernels = make_device("cuda", pool, arena);
    for (const int64_t width : {520, 768, 1024, 2048}) {
        for (const DType dtype : {DType::bf16, DType::fp32}) {
            SCOPED_TRACE(cat(width, " columns, ", name_of(dtype)));
            EXPECT_EQ(first_of(*kernels, 1, width, dtype), first_of(*kernels, 5, width, dtype));
        }
    }
}

}  // namespace
}  // namespace accrue::conformance
