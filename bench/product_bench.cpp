// How fast the CPU products are, as a share of what the multiply-add units of this machine do in the same run.
//   product_bench [threads] [instruction set]
// Each shape is checked on a few elements before it is timed; a time is the best of several rounds.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <immintrin.h>
#include <sys/mman.h>

#include "accrue/base/random.h"
#include "accrue/kernels/cpu/linear.h"

namespace accrue {
namespace {

double seconds_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr int kChains = 24;

// kChains independent multiply-adds over and over: as many as the tile kernel has, without its loads.
__attribute__((target("avx512f,avx512bf16"))) float run_floats(int64_t rounds) {
    __m512 sums[kChains];
    std::fill(sums, sums + kChains, _mm512_set1_ps(1));
    const __m512 one = _mm512_set1_ps(0.5F);
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
        for (__m512& sum : sums) {
            sum = _mm512_fmadd_ps(sum, one, one);
        }
    }
    __m512 total = sums[0];
    for (const __m512& sum : sums) {
        total = _mm512_add_ps(total, sum);
    }
    return _mm512_cvtss_f32(total);
}

__attribute__((target("avx512f,avx512bf16"))) float run_pairs(int64_t rounds) {
    __m512 sums[kChains];
    std::fill(sums, sums + kChains, _mm512_set1_ps(1));
    const auto one = (__m512bh)_mm512_set1_epi32(0x3f803f80);
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
        for (__m512& sum : sums) {
            sum = _mm512_dpbf16_ps(sum, one, one);
        }
    }
    __m512 total = sums[0];
    for (const __m512& sum : sums) {
        total = _mm512_add_ps(total, sum);
    }
    return _mm512_cvtss_f32(total);
}

// GFLOP/s of all threads together, 0 where the processor has no such instruction.
double peak_of(Pool& pool, DType dtype) {
    const bool floats = dtype == DType::fp32;
    if (__builtin_cpu_supports("avx512f") == 0 || (!floats && __builtin_cpu_supports("avx512bf16") == 0)) {
        return 0;
    }
    constexpr int64_t kRounds = 400000;
    volatile float keep = 0;
    const double seconds = seconds_of([&] {
        pool.run(pool.threads(), [&](int64_t, int) { keep = floats ? run_floats(kRounds) : run_pairs(kRounds); });
    });
    return static_cast<double>(kRounds * kChains * 16 * (floats ? 2 : 4) * pool.threads()) / seconds * 1e-9;
}

// Memory in huge pages, as the arena has it.
template <class T>
struct HugePages {
    using value_type = T;
    HugePages() = default;
    template <class Other>
    explicit HugePages(const HugePages<Other>&) {}
    T* allocate(size_t count) {
        constexpr size_t kPage = size_t{2} << 20;
        const size_t bytes = (count * sizeof(T) + kPage - 1) / kPage * kPage;
        void* memory = std::aligned_alloc(kPage, bytes);
        madvise(memory, bytes, MADV_HUGEPAGE);
        return static_cast<T*>(memory);
    }
    void deallocate(T* memory, size_t) { std::free(memory); }
    bool operator==(const HugePages&) const = default;
};

template <class T>
using Values = std::vector<T, HugePages<T>>;

template <class T>
Values<T> random_values(int64_t count, uint64_t seed) {
    Values<T> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = T(uniform(mix(seed, i)) - 0.5F);
    }
    return values;
}

struct Shape {
    int64_t rows;
    int64_t in;
    int64_t out;
};

// The three products of one linear layer on one set of buffers.
template <class T>
class Layer {
public:
    explicit Layer(const Shape& shape)
        : shape_(shape),
          input_(random_values<T>(shape.rows * shape.in, 1)),
          weight_(random_values<T>(shape.out * shape.in, 2)),
          d_output_(random_values<T>(shape.rows * shape.out, 3)),
          output_(d_output_.size()),
          d_input_(input_.size()),
          sums_(weight_.size()) {}

    void forward(const cpu::Context& context) {
        cpu::linear(context, input(), weight(), {}, View<T>(output_.data(), shape_.rows, shape_.out));
    }
    void input_grad(const cpu::Context& context) {
        cpu::linear_input_grad(context, d_output(), weight(), View<T>(d_input_.data(), shape_.rows, shape_.in));
    }
    void weight_grad(const cpu::Context& context) {
        record_ = {};
        cpu::add_linear_weight_grad(
            context, d_output(), input(), WeightLayout::out_in,
            {.data = sums_.data(), .rows = shape_.out, .columns = shape_.in, .per_unit = 0x1p20, .record = &record_},
            {});
    }

    // Some elements of the forward product against a plain loop; ends the program where they differ.
    void check(const cpu::Context& context) {
        forward(context);
        for (int64_t place = 0; place < shape_.rows * shape_.out; place += shape_.rows * shape_.out / 7 + 1) {
            const int64_t r = place / shape_.out;
            const int64_t o = place % shape_.out;
            double sum = 0;
            for (int64_t i = 0; i < shape_.in; ++i) {
                sum += static_cast<double>(static_cast<float>(input_[static_cast<size_t>(r * shape_.in + i)])) *
                       static_cast<float>(weight_[static_cast<size_t>(o * shape_.in + i)]);
            }
            if (std::abs(sum - static_cast<float>(output_[static_cast<size_t>(place)])) > 0.05 + 0.01 * std::abs(sum)) {
                std::fprintf(stderr, "wrong answer at %ld, %ld\n", static_cast<long>(r), static_cast<long>(o));
                std::exit(1);
            }
        }
    }

private:
    [[nodiscard]] AnyConstView input() const { return View<const T>(input_.data(), shape_.rows, shape_.in); }
    [[nodiscard]] AnyConstView d_output() const { return View<const T>(d_output_.data(), shape_.rows, shape_.out); }
    [[nodiscard]] WeightView weight() const {
        return {View<const T>(weight_.data(), shape_.out, shape_.in), WeightLayout::out_in};
    }

    Shape shape_;
    Values<T> input_;
    Values<T> weight_;
    Values<T> d_output_;
    Values<T> output_;
    Values<T> d_input_;
    Values<int64_t> sums_;
    GrainRecord record_;
};

template <class T>
void measure(const cpu::Context& context, const Shape& shape, int rounds) {
    Layer<T> layer(shape);
    layer.check(context);
    const double work = 2e-9 * static_cast<double>(shape.rows * shape.in * shape.out);
    const int repeats = std::max(1, static_cast<int>(0.5 / work));
    double best[3] = {1e9, 1e9, 1e9};
    double peak = 0;
    for (int round = 0; round < rounds; ++round) {
        peak = std::max(peak, peak_of(context.pool, dtype_of<T>));
        const std::function<void()> kinds[] = {[&] { layer.forward(context); }, [&] { layer.input_grad(context); },
                                               [&] { layer.weight_grad(context); }};
        for (int kind = 0; kind < 3; ++kind) {
            for (int repeat = 0; repeat < repeats; ++repeat) {
                best[kind] = std::min(best[kind], seconds_of(kinds[kind]));
            }
        }
    }
    std::printf("%s %5ld x %5ld -> %5ld  peak %4.0f", std::string(name_of(dtype_of<T>)).c_str(),
                static_cast<long>(shape.rows), static_cast<long>(shape.in), static_cast<long>(shape.out), peak);
    for (const double seconds : best) {
        std::printf("   %6.1f (%3.0f%%)", work / seconds, 100 * work / seconds / peak);
    }
    std::printf("\n");
    std::fflush(stdout);
}

int run(int argc, char** argv) {
    Pool pool(argc > 1 ? std::atoi(argv[1]) : 0);
    Arena arena(int64_t{96} << 20);
    arena.touch();
    const cpu::Context context{pool, arena, cpu::instruction_set_named(argc > 2 ? argv[2] : "")};
    const int rounds = argc > 3 ? std::atoi(argv[3]) : 6;
    std::printf("%d threads, %s; GFLOP/s of forward, input gradient, exact weight gradient\n", pool.threads(),
                std::string(cpu::title_of(context.set)).c_str());
    const Shape shapes[] = {{1024, 768, 2304},  {1024, 768, 768}, {1024, 768, 3072}, {1024, 3072, 768},
                            {1024, 256, 768},   {1024, 256, 256}, {1024, 256, 704},  {1024, 704, 256},
                            {1024, 768, 50304}, {1, 768, 2304}};
    for (const Shape& shape : shapes) {
        measure<Bf16>(context, shape, shape.out > 50000 ? 2 : rounds);
    }
    for (const Shape& shape : shapes) {
        measure<float>(context, shape, shape.out > 50000 ? 2 : rounds);
    }
    return 0;
}

}  // namespace
}  // namespace accrue

int main(int argc, char** argv) {
    return accrue::run(argc, argv);
}
