// How fast the CPU products are, beside oneDNN on the same work, as a share of what the multiply-add units of this machine
// do in the same run.
//   accrue_bench_products [--threads N] [--rounds N] [--dtype bf16] [--output RESULT.json]
// Both must give the right answer before anything is timed. They take turns, and a time is the median over rounds. Each
// turn goes on to another set of buffers, as one layer of a step follows the other: nothing is in a cache from last time.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/onednn_products.h"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sys/mman.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/machine.h"
#include "accrue/base/random.h"
#include "accrue/kernels/cpu/linear.h"
#include "accrue/kernels/timed/ceilings.h"

namespace accrue {
namespace {

double seconds_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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

// The three products of one linear layer on one set of buffers, by either side.
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

    void forward(const cpu::Context& context) { cpu::linear(context, input(), {weight(), kLayout}, {}, output()); }
    void forward_by_onednn(Pool& pool) { onednn_forward(pool, input(), weight(), output()); }

    void input_grad(const cpu::Context& context) {
        cpu::linear_input_grad(context, d_output(), {weight(), kLayout}, d_input());
    }
    void input_grad_by_onednn(Pool& pool) { onednn_input_grad(pool, d_output(), weight(), d_input()); }

    void weight_grad(const cpu::Context& context) {
        GrainRecord record;
        cpu::add_linear_weight_grad(
            context, d_output(), input(), kLayout,
            {.data = sums_.data(), .rows = shape_.out, .columns = shape_.in, .per_unit = kPerUnit, .record = &record},
            {});
    }
    void weight_grad_by_onednn(Pool& pool) {
        onednn_weight_grad(pool, d_output(), input(), kPerUnit, View<int64_t>(sums_.data(), shape_.out, shape_.in));
    }

    // The same results from both, up to rounding; ends the program where they differ.
    void check(const cpu::Context& context) {
        forward(context);
        const Values<T> output = output_;
        forward_by_onednn(context.pool);
        expect_near("output", output, output_);
        input_grad(context);
        const Values<T> d_input = d_input_;
        input_grad_by_onednn(context.pool);
        expect_near("d_input", d_input, d_input_);
        weight_grad(context);
        const Values<int64_t> sums = sums_;
        std::fill(sums_.begin(), sums_.end(), 0);
        weight_grad_by_onednn(context.pool);
        expect_near("sums", sums, sums_);
    }

private:
    static constexpr WeightLayout kLayout = WeightLayout::out_in;
    static constexpr double kPerUnit = 0x1p20;

    template <class Value>
    static void expect_near(const char* what, const Values<Value>& ours, const Values<Value>& theirs) {
        double squares = 0;
        double differences = 0;
        for (size_t i = 0; i < ours.size(); ++i) {
            const auto value = static_cast<double>(static_cast<float>(theirs[i]));
            const double difference = static_cast<double>(static_cast<float>(ours[i])) - value;
            squares += value * value;
            differences += difference * difference;
        }
        if (!(differences <= 1e-5 * squares)) {
            std::fprintf(stderr, "the two disagree about %s: %g of %g\n", what, differences, squares);
            std::exit(1);
        }
    }

    [[nodiscard]] AnyConstView input() const { return View<const T>(input_.data(), shape_.rows, shape_.in); }
    [[nodiscard]] AnyConstView weight() const { return View<const T>(weight_.data(), shape_.out, shape_.in); }
    [[nodiscard]] AnyConstView d_output() const { return View<const T>(d_output_.data(), shape_.rows, shape_.out); }
    [[nodiscard]] AnyView output() { return View<T>(output_.data(), shape_.rows, shape_.out); }
    [[nodiscard]] AnyView d_input() { return View<T>(d_input_.data(), shape_.rows, shape_.in); }

    Shape shape_;
    Values<T> input_;
    Values<T> weight_;
    Values<T> d_output_;
    Values<T> output_;
    Values<T> d_input_;
    Values<int64_t> sums_;
};

using Json = nlohmann::ordered_json;

double median_of(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

struct Options {
    int threads = 0;
    int rounds = 15;
    std::string dtype;
    std::string set;
    std::string output;
    std::string commit;
};

// Sets of buffers that together are larger than a cache.
int64_t sets_for(const Shape& shape) {
    constexpr int64_t kCacheBytes = int64_t{256} << 20;
    return std::clamp<int64_t>(kCacheBytes / (shape.in * shape.out * 12), 1, 12);
}

template <class T>
Json measure(const cpu::Context& context, const Shape& shape, const Options& options) {
    std::vector<Layer<T>> layers(static_cast<size_t>(sets_for(shape)), Layer<T>(shape));
    layers.front().check(context);
    Pool& pool = context.pool;
    struct Kind {
        const char* name;
        std::function<void(Layer<T>&)> ours;
        std::function<void(Layer<T>&)> onednn;
        std::vector<double> our_rates;
        std::vector<double> onednn_rates;
    };
    Kind kinds[] = {{"forward", [&](auto& l) { l.forward(context); }, [&](auto& l) { l.forward_by_onednn(pool); }, {}, {}},
                    {"input_gradient",
                     [&](auto& l) { l.input_grad(context); },
                     [&](auto& l) { l.input_grad_by_onednn(pool); },
                     {},
                     {}},
                    {"exact_weight_gradient",
                     [&](auto& l) { l.weight_grad(context); },
                     [&](auto& l) { l.weight_grad_by_onednn(pool); },
                     {},
                     {}}};
    const double work = 2e-9 * static_cast<double>(shape.rows * shape.in * shape.out);
    std::vector<double> peaks;
    const auto rate_of = [&](const std::function<void(Layer<T>&)>& product) {
        const double seconds = seconds_of([&] {
            for (Layer<T>& layer : layers) {
                product(layer);
            }
        });
        return work * static_cast<double>(layers.size()) / seconds;
    };
    for (int round = 0; round < options.rounds; ++round) {
        peaks.push_back(1e-9 * multiply_add_rate(pool, dtype_of<T>, context.set));
        for (Kind& kind : kinds) {
            kind.our_rates.push_back(rate_of(kind.ours));
            kind.onednn_rates.push_back(rate_of(kind.onednn));
        }
    }
    const double peak = median_of(peaks);
    Json result = {{"dtype", name_of(dtype_of<T>)}, {"rows", shape.rows}, {"in", shape.in}, {"out", shape.out},
                   {"peak_gflops", peak}};
    std::printf("%s %5ld x %5ld -> %5ld  peak %4.0f", std::string(name_of(dtype_of<T>)).c_str(),
                static_cast<long>(shape.rows), static_cast<long>(shape.in), static_cast<long>(shape.out), peak);
    for (const Kind& kind : kinds) {
        const double ours = median_of(kind.our_rates);
        const double theirs = median_of(kind.onednn_rates);
        std::printf("   %6.1f (%2.0f%%) %5.3fx", ours, 100 * ours / peak, ours / theirs);
        result[kind.name] = {{"gflops", ours}, {"of_peak", ours / peak}, {"onednn_gflops", theirs}, {"ratio", ours / theirs}};
    }
    std::printf("\n");
    std::fflush(stdout);
    return result;
}

int run(const Options& options) {
    if (cpu::best_instruction_set() < cpu::InstructionSet::avx512) {
        throw Error("oneDNN's side of this benchmark needs AVX-512, and this processor has none.");
    }
    const std::string limit = limit_onednn();
    Pool pool(options.threads);
    Arena arena(int64_t{128} << 20);
    arena.touch();
    const cpu::Context context{pool, arena, cpu::instruction_set_named(options.set)};
    std::printf("%d threads, %s; GFLOP/s, share of the peak and ratio to oneDNN:\n"
                "forward, input gradient, exact weight gradient\n",
                pool.threads(), std::string(cpu::title_of(context.set)).c_str());
    if (!limit.empty()) {
        std::printf("oneDNN is limited to %s\n", limit.c_str());
    }
    const Shape shapes[] = {{1024, 768, 2304}, {1024, 768, 768},   {1024, 768, 3072},  {1024, 3072, 768},
                            {1024, 256, 768},  {1024, 1024, 2816}, {1024, 2816, 1024}, {1024, 768, 50304}};
    Json results = Json::array();
    for (const Shape& shape : shapes) {
        if (options.dtype != "fp32") {
            results.push_back(measure<Bf16>(context, shape, options));
        }
        if (options.dtype != "bf16") {
            results.push_back(measure<float>(context, shape, options));
        }
    }
    if (!options.output.empty()) {
        const Machine machine = this_machine();
        const Json file = {{"benchmark", "products"},
                           {"command", "accrue_bench_products --rounds " + std::to_string(options.rounds)},
                           {"commit", options.commit},
                           {"machine", {{"processor", machine.processor}, {"processors", machine.processors}}},
                           {"instructions", cpu::title_of(context.set)},
                           {"onednn_limit", limit.empty() ? Json() : Json(limit)},
                           {"threads", pool.threads()},
                           {"results", results}};
        write_text(options.output, file.dump(1) + "\n");
    }
    return 0;
}

}  // namespace
}  // namespace accrue

int main(int argc, char** argv) {
    accrue::Options options;
    CLI::App app("The CPU products beside oneDNN.");
    app.add_option("--threads", options.threads, "0 = all");
    app.add_option("--rounds", options.rounds);
    app.add_option("--dtype", options.dtype)->check(CLI::IsMember({"bf16", "fp32"}));
    app.add_option("--instruction-set", options.set);
    app.add_option("--output", options.output)->type_name("FILE");
    app.add_option("--commit", options.commit, "Of the sources, for the result file");
    CLI11_PARSE(app, argc, argv);
    try {
        return accrue::run(options);
    } catch (const accrue::Error& error) {
        std::fprintf(stderr, "accrue_bench_products: %s\n", error.what());
        return 1;
    }
}
