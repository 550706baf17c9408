#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "accrue/base/random.h"
#include "accrue/kernels/device.h"

namespace accrue::conformance {

// What one call of an operation is tried with. Each operation uses what it has a use for.
struct Case {
    DType dtype = DType::fp32;         // of activations and weights
    DType output_dtype = DType::fp32;  // of "any" outputs
    int64_t rows = 1;
    int64_t in = 1;   // columns of inputs; also the columns of elementwise operations and the head size of attention
    int64_t out = 1;  // columns of products; also vocabularies and tables
    int64_t first_row = 0;  // which rows of an endless input these are, so that a part can be compared with the whole
    int64_t gap = 0;        // elements between the end of a row and the next one
    float dropout = 0;
    WeightLayout layout = WeightLayout::out_in;
    SumKind sums = SumKind::exact;
    int64_t loss_scale = 1;    // that gradients are multiplied by, and sums take out
    bool fp32_weight = false;  // beside bf16: to be rounded
    bool probe = false;        // sums without data
    bool held = false;         // some rows of a weight gradient are held back
    bool broken = false;       // an infinity and a NaN in the gradient
    bool integers = false;     // small whole numbers: fp32 makes no error, and results must be equal to the last bit
};

[[nodiscard]] std::string text_of(const Case& tried);

// The same case for what does not belong to rows: weights, tables, gains.
[[nodiscard]] inline Case fixed(Case tried) {
    tried.first_row = 0;
    return tried;
}

// The same case for what divides or takes roots, so that whole numbers have errors too.
[[nodiscard]] inline Case inexact(Case tried) {
    tried.integers = false;
    return tried;
}

// A matrix in memory of exactly its size, with gaps that nobody may write to.
class Matrix {
public:
    // Numbers of scale 1 that depend on the seed, the absolute row and the column; whole ones if the case says so.
    static Matrix random(const Case& tried, DType dtype, uint64_t seed, int64_t rows, int64_t columns);
    // NaN everywhere, so that an element which is not written is seen.
    static Matrix poison(const Case& tried, DType dtype, int64_t rows, int64_t columns);

    [[nodiscard]] AnyView any();
    [[nodiscard]] View<float> floats() { return any().as<float>(); }
    [[nodiscard]] double at(int64_t r, int64_t c) const;
    void set(int64_t r, int64_t c, double x);
    // The elements in row order; throws if a gap was written to.
    [[nodiscard]] std::vector<double> values() const;
    [[nodiscard]] DType dtype() const { return dtype_; }
    [[nodiscard]] int64_t rows() const { return rows_; }
    [[nodiscard]] int64_t columns() const { return columns_; }

private:
    Matrix(DType dtype, int64_t rows, int64_t columns, int64_t gap);

    DType dtype_;
    int64_t rows_;
    int64_t columns_;
    int64_t stride_;
    std::vector<std::byte> bytes_;
};

// The window's sum of a tensor that already holds something, with its record.
class Sum {
public:
    Sum(const Case& tried, uint64_t seed, int64_t rows, int64_t columns);
    [[nodiscard]] const SumView& view() const { return view_; }
    // The sums as numbers (units multiplied out), or nothing for a probe.
    [[nodiscard]] std::vector<double> values() const;
    [[nodiscard]] const GrainRecord& record() const { return *record_; }

private:
    std::vector<std::byte> bytes_;
    std::unique_ptr<GrainRecord> record_;
    SumView view_;
};

// Who the rows of a dropout are, kept alive beside it.
struct Mask {
    std::vector<uint64_t> rows;
    Dropout dropout;
    explicit Mask(const Case& tried, uint64_t site);
};

// The rows of a case as two grains, the first of which is empty where there is one row.
[[nodiscard]] inline std::vector<RowRange> two_grains(const Case& tried) {
    const int64_t first = tried.rows / 2;
    return {{.first = 0, .rows = first}, {.first = first, .rows = tried.rows - first}};
}

// A random gradient; where the case is broken, with an infinity and a NaN in its first row.
[[nodiscard]] Matrix random_gradient(const Case& tried, DType dtype, uint64_t seed, int64_t rows, int64_t columns);

[[nodiscard]] std::vector<int32_t> random_indices(const Case& tried, uint64_t seed, int64_t count, int64_t limit);
[[nodiscard]] inline View<const int32_t> row_of(const std::vector<int32_t>& values) {
    return {values.data(), 1, static_cast<int64_t>(values.size())};
}

// One array that an operation left behind.
struct Outcome {
    std::string name;
    std::vector<double> values;
    double relative = 0;      // allowed error, relative to the element
    double at_least = 0;      // and at all
    double of_typical = 0;    // and to the root of the mean square of the array
    int64_t row_columns = 0;  // > 0: row r of the case owns this many values, and its bits depend on no other row
    bool mixes_probabilities = false;  // a product of bf16 matrices, one of which is never stored
};
using Outcomes = std::vector<Outcome>;

// How far a device may be from the reference. An fp32 sum of 1,000 terms is off by 2e-6 of a typical result, the
// worst of 100,000 such sums by some times that. A bf16 output may fall on the other side of a rounding boundary: one
// unit in the last of its 8 places. Whole numbers leave no room at all.
[[nodiscard]] Outcome compared(const Case& tried, const std::string& name, const Matrix& matrix);
// The same, for a matrix whose row r depends on row r of the inputs and on no other.
[[nodiscard]] Outcome by_row(const Case& tried, const std::string& name, const Matrix& matrix);
// A sum and its record.
void append(Outcomes& outcomes, const Case& tried, const std::string& name, const Sum& sum);

// One row of the conformance table: an operation, tried on a device with a case.
struct Operation {
    std::string name;
    std::function<Outcomes(Kernels&, const Case&)> run;
    std::vector<Case> cases;
};

// Those of its cases that a device computes: the optimized processor leaves out fp16.
[[nodiscard]] std::vector<Case> cases_of(const Operation& operation, DeviceKind device);

// What an operation leaves that sums the columns of a matrix as it writes it, less what LinearBackward makes of the matrix
// afterwards: a device is compared with itself, to the last bit. Both grains of a case add to one sum each.
class EarlySums {
public:
    EarlySums(const Case& tried, uint64_t seed, int64_t columns);
    [[nodiscard]] std::span<const SumView> views() const { return views_; }
    [[nodiscard]] std::span<const RowRange> grains() const { return grains_; }
    void compare(Kernels& kernels, AnyConstView written, Outcomes& outcomes) const;

private:
    std::vector<RowRange> grains_;
    std::vector<Sum> sums_;
    std::vector<Sum> later_;
    std::vector<SumView> views_;
};

// Widths and numbers of rows that devices cut in different ways, for operations that sum what they write.
[[nodiscard]] std::vector<Case> early_sum_cases();

// The cases that most operations are tried with: sizes on, below and above the vector lengths, in every dtype, with every
// option on somewhere; a loss scale in fp16.
[[nodiscard]] std::vector<Case> usual_cases();

// The same and, in fewer sizes, every other kind of sum.
[[nodiscard]] std::vector<Case> sum_cases();

// The devices of a test program: "cuda", or the instruction set of the processor.
[[nodiscard]] std::vector<std::string> devices_under_test();
// One of them, which may be read from as soon as an operation returns.
[[nodiscard]] std::unique_ptr<Kernels> make_device(const std::string& name, Pool& pool, Arena& arena);

// Which rows of the table it tries.
[[nodiscard]] std::vector<Operation> operations_under_test();

// The whole table, and its parts.
[[nodiscard]] std::vector<Operation> all_operations();
[[nodiscard]] std::vector<Operation> product_operations();
[[nodiscard]] std::vector<Operation> norm_operations();
[[nodiscard]] std::vector<Operation> attention_operations();
[[nodiscard]] std::vector<Operation> elementwise_operations();
[[nodiscard]] std::vector<Operation> table_operations();
[[nodiscard]] std::vector<Operation> optimizer_operations();

}  // namespace accrue::conformance
