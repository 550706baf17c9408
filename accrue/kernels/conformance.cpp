#include "accrue/kernels/conformance.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

namespace accrue::conformance {
namespace {

// A NaN that no arithmetic makes, so that a gap can be recognised.
constexpr uint32_t kPoison = 0x7fc1dead;
constexpr uint16_t kPoisonHalf = 0x7fc1;

// What halves near zero are multiples of.
constexpr double kSmallestHalf = 0x1p-24;

// The range of `integers`: sums of 1,000 products of two of them stay below 2^24.
constexpr uint64_t kIntegers = 9;

// Four uniform numbers added up have almost the shape of a normal one, and scale 1 after this factor.
float random_value(const Case& tried, uint64_t row_hash, int64_t c) {
    const uint64_t hash = mix(row_hash + static_cast<uint64_t>(c) * 0x9e3779b97f4a7c15ULL);
    if (tried.integers) {
        return static_cast<float>(hash % kIntegers) - 4;
    }
    const uint64_t sum = (hash & 0xffff) + (hash >> 16 & 0xffff) + (hash >> 32 & 0xffff) + (hash >> 48);
    return (static_cast<float>(sum) * 0x1p-16F - 2) * 1.7320508F;
}

std::string_view name_of(SumKind kind) {
    constexpr std::string_view kNames[] = {"exact", "fp32", "bf16", "stochastic bf16", "Kahan's bf16"};
    return kNames[static_cast<size_t>(kind)];
}

// Where fp32 differs in its last place, a sum may fall on the other side of a rounding boundary of its format.
double rounding_of(SumKind kind) {
    return kind == SumKind::bf16_kahan ? 0x1p-15 : bytes_of(kind) == 2 ? 0x1p-7 : 0;
}

// One unit in the last place of the format, on whose other side a result may fall; of fp32 many, for a sum's order is free.
double last_place_of(DType dtype) {
    switch (dtype) {
        case DType::bf16:
            return 0x1p-7;
        case DType::fp16:
            return 0x1p-10;
        default:
            return 1e-5;
    }
}

// The bits of a number in a format of 16 bits, and back.
uint16_t bits_of(DType dtype, float x) {
    return dtype == DType::bf16 ? Bf16(x).bits : Fp16(x).bits;
}
float number_of(DType dtype, uint16_t bits) {
    if (dtype == DType::bf16) {
        return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    }
    Fp16 x;
    x.bits = bits;
    return static_cast<float>(x);
}

// As a run in fp16 has it: one narrow format, and a loss scale.
Case scaled(Case tried) {
    tried.output_dtype = tried.output_dtype == DType::bf16 ? DType::fp16 : tried.output_dtype;
    tried.loss_scale = 16;
    return tried;
}

}  // namespace

std::string text_of(const Case& tried) {
    return cat(name_of(tried.dtype), " to ", name_of(tried.output_dtype), ", rows ", tried.first_row, " + ", tried.rows,
               ", in ", tried.in, ", out ", tried.out, ", gap ", tried.gap, ", dropout ", tried.dropout,
               tried.layout == WeightLayout::in_out ? ", [in, out]" : "", tried.fp32_weight ? ", fp32 weight" : "",
               ", ", name_of(tried.sums), " sums", tried.loss_scale > 1 ? cat(", loss scale ", tried.loss_scale) : "",
               tried.probe ? ", probe" : "", tried.held ? ", held rows" : "", tried.broken ? ", not finite" : "",
               tried.integers ? ", whole numbers" : "");
}

Matrix::Matrix(DType dtype, int64_t rows, int64_t columns, int64_t gap)
    : dtype_(dtype), rows_(rows), columns_(columns), stride_(columns + gap) {
    const int64_t elements = rows == 0 ? 0 : (rows - 1) * stride_ + columns;
    bytes_.reserve(1);  // a matrix without rows is not an empty view
    bytes_.resize(static_cast<size_t>(elements * bytes_of(dtype)));
    for (int64_t i = 0; i < elements; ++i) {
        if (dtype == DType::fp32) {
            std::memcpy(bytes_.data() + i * 4, &kPoison, 4);
        } else {
            std::memcpy(bytes_.data() + i * 2, &kPoisonHalf, 2);
        }
    }
}

Matrix Matrix::poison(const Case& tried, DType dtype, int64_t rows, int64_t columns) {
    return {dtype, rows, columns, tried.gap};
}

Matrix Matrix::random(const Case& tried, DType dtype, uint64_t seed, int64_t rows, int64_t columns) {
    Matrix result(dtype, rows, columns, tried.gap);
    for (int64_t r = 0; r < rows; ++r) {
        const uint64_t row_hash = mix(seed, static_cast<uint64_t>(tried.first_row + r));
        for (int64_t c = 0; c < columns; ++c) {
            result.set(r, c, random_value(tried, row_hash, c));
        }
    }
    return result;
}

AnyView Matrix::any() {
    return {bytes_.data(), dtype_, rows_, columns_, stride_};
}

double Matrix::at(int64_t r, int64_t c) const {
    const std::byte* place = bytes_.data() + (r * stride_ + c) * bytes_of(dtype_);
    if (dtype_ == DType::fp32) {
        float x = 0;
        std::memcpy(&x, place, 4);
        return x;
    }
    uint16_t bits = 0;
    std::memcpy(&bits, place, 2);
    return number_of(dtype_, bits);
}

void Matrix::set(int64_t r, int64_t c, double x) {
    std::byte* place = bytes_.data() + (r * stride_ + c) * bytes_of(dtype_);
    const auto narrow = static_cast<float>(x);
    if (dtype_ == DType::fp32) {
        std::memcpy(place, &narrow, 4);
    } else {
        const uint16_t bits = bits_of(dtype_, narrow);
        std::memcpy(place, &bits, 2);
    }
}

std::vector<double> Matrix::values() const {
    std::vector<double> result;
    result.reserve(static_cast<size_t>(rows_ * columns_));
    for (int64_t r = 0; r < rows_; ++r) {
        for (int64_t c = 0; c < columns_; ++c) {
            result.push_back(at(r, c));
        }
        const int64_t gap_end = r + 1 < rows_ ? stride_ : columns_;
        for (int64_t c = columns_; c < gap_end; ++c) {
            const std::byte* place = bytes_.data() + (r * stride_ + c) * bytes_of(dtype_);
            const bool whole =
                dtype_ == DType::fp32 ? std::memcmp(place, &kPoison, 4) == 0 : std::memcmp(place, &kPoisonHalf, 2) == 0;
            if (!whole) {
                throw Error(cat("the gap after row ", r, " was written to at column ", c, " of ", columns_));
            }
        }
    }
    return result;
}

Sum::Sum(const Case& tried, uint64_t seed, int64_t rows, int64_t columns)
    : record_(std::make_unique<GrainRecord>(GrainRecord{.squares = 3, .largest = 0.125F})) {
    // Whole numbers in units of 2 make ties: half of them are rounded to even.
    const double per_unit = tried.integers ? 0.5 : 0x1p30;
    view_ = {.kind = tried.sums,
             .data = nullptr,
             .rows = rows,
             .columns = columns,
             .per_unit = per_unit,
             .rounding_key = mix(seed),
             .record = record_.get(),
             .unscale = 1 / static_cast<float>(tried.loss_scale)};
    if (tried.probe) {
        return;
    }
    bytes_.resize(static_cast<size_t>(rows * columns * bytes_of(tried.sums)));
    view_.data = bytes_.data();
    for (int64_t i = 0; i < rows * columns; ++i) {
        const float start = random_value(tried, mix(seed, 0), i);
        switch (tried.sums) {
            case SumKind::exact:
                static_cast<int64_t*>(view_.data)[i] = static_cast<int64_t>(start * per_unit);
                break;
            case SumKind::fp32:
                static_cast<float*>(view_.data)[i] = start;
                break;
            case SumKind::bf16_kahan:
                static_cast<KahanBf16*>(view_.data)[i] = {.sum = Bf16(start), .lost = Bf16(start * 0x1p-10F)};
                break;
            default:
                static_cast<Bf16*>(view_.data)[i] = Bf16(start);
        }
    }
}

std::vector<double> Sum::values() const {
    std::vector<double> result;
    for (int64_t i = 0; view_.data != nullptr && i < view_.elements(); ++i) {
        const MeanView numbers{.kind = view_.kind,
                               .data = view_.data,
                               .elements = view_.elements(),
                               .factor = view_.kind == SumKind::exact ? 1 / view_.per_unit : 1};
        result.push_back(numbers.at(i));
    }
    return result;
}

Mask::Mask(const Case& tried, uint64_t site) {
    for (int64_t r = 0; r < tried.rows; ++r) {
        rows.push_back(mix(77, static_cast<uint64_t>(tried.first_row + r)));
    }
    dropout = {.probability = tried.dropout, .site = site, .rows = {rows.data(), 1, tried.rows}};
}

Matrix random_gradient(const Case& tried, DType dtype, uint64_t seed, int64_t rows, int64_t columns) {
    Matrix result = Matrix::random(tried, dtype, seed, rows, columns);
    if (tried.broken && rows > 0) {
        result.set(0, 0, std::numeric_limits<double>::infinity());
        result.set(0, columns / 2, std::numeric_limits<double>::quiet_NaN());
    }
    return result;
}

Outcome compared(const Case& tried, const std::string& name, const Matrix& matrix) {
    return {.name = name,
            .values = matrix.values(),
            .relative = tried.integers ? 0 : last_place_of(matrix.dtype()),
            .at_least = matrix.dtype() == DType::fp16 && !tried.integers ? kSmallestHalf : 0,
            .of_typical = tried.integers ? 0 : 2e-5};
}

Outcome by_row(const Case& tried, const std::string& name, const Matrix& matrix) {
    Outcome result = compared(tried, name, matrix);
    result.row_columns = matrix.columns();
    return result;
}

void append(Outcomes& outcomes, const Case& tried, const std::string& name, const Sum& sum) {
    const double room = tried.integers ? 0 : 2e-5;
    const double rounding = tried.integers ? 0 : rounding_of(tried.sums);
    outcomes.push_back({.name = name, .values = sum.values(), .relative = room + rounding, .of_typical = room});
    const GrainRecord& record = sum.record();
    outcomes.push_back({.name = name + " squares", .values = {record.squares}, .relative = room});
    outcomes.push_back({.name = name + " largest", .values = {record.largest}, .relative = room});
    outcomes.push_back({.name = name + " not finite", .values = {record.not_finite ? 1.0 : 0.0}});
}

EarlySums::EarlySums(const Case& tried, uint64_t seed, int64_t columns) : grains_(two_grains(tried)) {
    for (uint64_t grain = 0; grain < grains_.size(); ++grain) {
        later_.emplace_back(tried, seed + grain, 1, columns);
        views_.push_back(sums_.emplace_back(tried, seed + grain, 1, columns).view());
    }
}

void EarlySums::compare(Kernels& kernels, AnyConstView written, Outcomes& outcomes) const {
    std::vector<SumView> later;
    std::ranges::transform(later_, std::back_inserter(later), &Sum::view);
    const op::LinearSums sums{.first_output = 0, .outputs = written.columns, .weight = {}, .bias = later};
    kernels.run(op::LinearBackward{.d_output = written,
                                   .input = {},
                                   .weight = {.matrix = {nullptr, DType::fp32, written.columns, 1}},
                                   .d_input = {},
                                   .grains = grains_,
                                   .sums = std::span(&sums, 1)});
    kernels.run(op::CompleteSums{});
    const auto numbers_of = [](const Sum& sum) {
        std::vector<double> numbers = sum.values();
        const GrainRecord& record = sum.record();
        numbers.insert(numbers.end(), {record.squares, record.largest, record.not_finite ? 1.0 : 0.0});
        return numbers;
    };
    for (size_t grain = 0; grain < grains_.size(); ++grain) {
        Outcome difference{.name = "fused minus apart", .values = numbers_of(sums_[grain])};
        const std::vector<double> apart = numbers_of(later_[grain]);
        for (size_t i = 0; i < apart.size(); ++i) {
            difference.values[i] -= apart[i];
        }
        outcomes.push_back(difference);
    }
}

std::vector<Case> cases_of(const Operation& operation, DeviceKind device) {
    std::vector<Case> cases = operation.cases;
    if (device == DeviceKind::cpu) {
        std::erase_if(
            cases, [](const Case& tried) { return tried.dtype == DType::fp16 || tried.output_dtype == DType::fp16; });
    }
    return cases;
}

std::vector<Case> usual_cases() {
    constexpr int64_t kSizes[][3] = {{1, 1, 1},     {7, 63, 65},  {65, 7, 63},   {63, 65, 7},    {0, 7, 7},
                                     {1, 1000, 65}, {1000, 7, 1}, {7, 65, 1000}, {50, 130, 100}, {600, 65, 3}};
    const Case options[] = {
        {.output_dtype = DType::fp32},
        {.output_dtype = DType::bf16, .gap = 3, .dropout = 0.3F, .sums = SumKind::fp32, .held = true},
        {.gap = 1, .dropout = 0.1F, .layout = WeightLayout::in_out, .probe = true},
        {.output_dtype = DType::bf16, .held = true, .broken = true},
        {.gap = 5, .dropout = 0.5F, .held = true, .integers = true},
        {.layout = WeightLayout::in_out, .sums = SumKind::fp32, .integers = true},
    };
    std::vector<Case> cases;
    for (const auto& [rows, in, out] : kSizes) {
        for (Case tried : options) {
            for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
                tried.dtype = dtype;
                tried.rows = rows;
                tried.in = in;
                tried.out = out;
                cases.push_back(dtype == DType::fp16 ? scaled(tried) : tried);
            }
        }
    }
    return cases;
}

std::vector<Case> sum_cases() {
    constexpr int64_t kSizes[][3] = {{1, 1, 1}, {7, 63, 65}, {50, 130, 100}, {0, 7, 7}};
    const Case options[] = {{}, {.layout = WeightLayout::in_out, .integers = true}, {.gap = 2, .held = true}};
    std::vector<Case> cases = usual_cases();
    for (const SumKind kind : {SumKind::bf16, SumKind::bf16_stochastic, SumKind::bf16_kahan}) {
        for (const auto& [rows, in, out] : kSizes) {
            for (Case tried : options) {
                tried.sums = kind;
                tried.rows = rows;
                tried.in = in;
                tried.out = out;
                cases.push_back(tried);
            }
        }
    }
    return cases;
}

std::vector<Case> early_sum_cases() {
    constexpr int64_t kSizes[][2] = {{1, 1},     {7, 63},     {0, 7},     {9, 768}, {50, 260},
                                     {1030, 96}, {1100, 300}, {21, 1000}, {5, 5000}};
    const Case options[] = {
        {.output_dtype = DType::bf16},
        {.output_dtype = DType::bf16, .gap = 8, .broken = true},
        {.output_dtype = DType::bf16, .gap = 3, .sums = SumKind::fp32},
        {.output_dtype = DType::fp32, .gap = 4},
    };
    std::vector<Case> cases;
    for (const auto& [rows, in] : kSizes) {
        for (Case tried : options) {
            tried.dtype = tried.output_dtype;
            tried.rows = rows;
            tried.in = in;
            cases.push_back(tried);
        }
    }
    cases.push_back({.dtype = DType::bf16, .output_dtype = DType::bf16, .rows = 8300, .in = 264});
    return cases;
}

std::vector<Operation> all_operations() {
    std::vector<Operation> all;
    for (const auto& part : {product_operations(), norm_operations(), attention_operations(), elementwise_operations(),
                             table_operations(), optimizer_operations()}) {
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

std::vector<int32_t> random_indices(const Case& tried, uint64_t seed, int64_t count, int64_t limit) {
    std::vector<int32_t> result;
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t hash = mix(seed, static_cast<uint64_t>(tried.first_row + i));
        result.push_back(static_cast<int32_t>(hash % static_cast<uint64_t>(limit)));
    }
    return result;
}

}  // namespace accrue::conformance
