// Attention on a GPU, by our own kernels and by cuDNN: errors against a reference in double, whether a segment's bits depend on
// what stands beside it, and times. Needs an architecture for which the table in kernels/cuda/cudnn_plan.h has cuDNN.
//     accrue_bench_gpu_attention
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bench/gpu_attention_problem.h"
#include <fmt/format.h>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/kernels/cuda/cudnn_attention.h"
#include "accrue/kernels/device.h"

namespace {

using namespace accrue;
using namespace accrue::bench;

double relative_error(const Values& values, const Values& expected, int64_t first_column, int64_t columns) {
    double difference = 0;
    double size = 0;
    const auto width = static_cast<size_t>(values.columns);
    for (size_t i = 0; i < values.bytes.size() / static_cast<size_t>(bytes_of(values.dtype)); ++i) {
        const auto column = static_cast<int64_t>(i % width);
        if (column >= first_column && column < first_column + columns) {
            const double x = values.at(i) - expected.at(i);
            difference += x * x;
            size += expected.at(i) * expected.at(i);
        }
    }
    return std::sqrt(difference / size);
}

void print_errors(Kernels& gpu) {
    fmt::print("\nrelative L2 error against a reference in double, samples of 1, 7, 64, 130, 200 and 257 tokens\n");
    fmt::print("{:<6} {:>5} {:>5} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "by", "head", "dtype", "output", "log_sum",
               "d_query", "d_key", "d_value");
    Arena host(int64_t{64} << 20);
    const auto reference = make_reference_kernels(host);
    for (const int64_t size : {64, 128}) {
        for (const DType dtype : {DType::bf16, DType::fp16}) {
            Problem problem{.heads = {.query = 4, .key = size == 64 ? 4 : 2, .size = size},
                            .dtype = dtype,
                            .samples = {{1, 1}, {2, 7}, {3, 64}, {4, 130}, {5, 200}, {6, 257}},
                            .longest = 257};
            const Results expected = computed(*reference, problem, DType::fp32);
            for (const By by : {By::own, By::cudnn}) {
                problem.by = by;
                const Results found = computed(gpu, problem, dtype);
                const int64_t query = problem.heads.query * size;
                const int64_t key = problem.heads.key * size;
                fmt::print("{:<6} {:>5} {:>5} {:>10.2e} {:>10.2e} {:>10.2e} {:>10.2e} {:>10.2e}\n", text_of(by), size,
                           name_of(dtype), relative_error(found.output, expected.output, 0, query),
                           relative_error(found.log_sum, expected.log_sum, 0, problem.heads.query),
                           relative_error(found.d_qkv, expected.d_qkv, 0, query),
                           relative_error(found.d_qkv, expected.d_qkv, query, key),
                           relative_error(found.d_qkv, expected.d_qkv, query + key, key));
            }
        }
    }
}

int64_t differing_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
    int64_t count = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        count += a[i] != b[i] ? 1 : 0;
    }
    return count;
}

// Of one sample in two problems, at the places that it has there.
int64_t differing_bytes(const Results& a, int64_t first_a, const Results& b, int64_t first_b, int64_t rows) {
    return differing_bytes(a.output.rows(first_a, rows), b.output.rows(first_b, rows)) +
           differing_bytes(a.log_sum.rows(first_a, rows), b.log_sum.rows(first_b, rows)) +
           differing_bytes(a.d_qkv.rows(first_a, rows), b.d_qkv.rows(first_b, rows));
}

// The sample alone, and in each of the surroundings.
void print_bits_of(Kernels& gpu, Problem problem, const Sample& sample,
                   const std::vector<std::vector<Sample>>& surroundings) {
    problem.samples = {sample};
    const Results alone = computed(gpu, problem, problem.dtype);
    const Results again = computed(gpu, problem, problem.dtype);
    fmt::print("{:<6} {:>5} {:>6} tokens: differing bytes again {}, among others", text_of(problem.by),
               problem.heads.size, sample.length, differing_bytes(alone, 0, again, 0, sample.length));
    for (const std::vector<Sample>& samples : surroundings) {
        problem.samples = samples;
        const Results among = computed(gpu, problem, problem.dtype);
        int64_t first = 0;
        for (const Sample& other : samples) {
            if (other.seed == sample.seed) {
                fmt::print(" {}", differing_bytes(alone, 0, among, first, sample.length));
            }
            first += other.length;
        }
    }
    fmt::print("\n");
}

void print_bits(Kernels& gpu) {
    constexpr int64_t kLongest = 1024;
    const Sample whole{1, kLongest};
    const Sample part{2, 700};
    const Sample odd{3, 333};
    const auto other = [](uint64_t seed, int64_t length) { return Sample{100 + seed, length}; };
    const std::vector<std::vector<Sample>> mixtures = {
        {whole, part, odd},
        {other(1, 33), odd, other(2, 1), part, whole},
        {part, whole, other(3, 1023), odd, other(4, 512), other(5, 2), other(6, 64), part, whole, odd},
    };
    std::vector<std::vector<Sample>> with_even = mixtures;
    with_even.push_back({whole, other(7, kLongest), other(8, kLongest)});
    with_even.push_back(std::vector<Sample>(9, other(9, kLongest)));
    with_even.back()[6] = whole;
    fmt::print("\na sample's bits (output, log_sum, all gradients) alone and beside others; runs of up to {} tokens\n",
               kLongest);
    for (const Heads& heads : {Heads{12, 12, 64}, Heads{32, 8, 128}}) {
        for (const By by : {By::own, By::cudnn}) {
            const Problem problem{.heads = heads, .samples = {}, .longest = kLongest, .by = by};
            print_bits_of(gpu, problem, whole, with_even);
            print_bits_of(gpu, problem, part, mixtures);
            print_bits_of(gpu, problem, odd, mixtures);
        }
    }
}

// Of one of many that follow one another, as a run does it.
double milliseconds(Kernels& gpu, OnDevice& on, const std::function<void()>& put) {
    constexpr int kAtOnce = 16;
    constexpr int kTimes = 6;
    const auto run_some = [&] {
        for (int i = 0; i < kAtOnce; ++i) {
            put();
        }
        gpu.submit();
    };
    for (int i = 0; i < 3; ++i) {
        run_some();
    }
    on.wait();
    double best = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < 4; ++repeat) {
        const auto start = Clock::now();
        for (int i = 0; i < kTimes; ++i) {
            run_some();
        }
        on.wait();
        best = std::min(best, seconds_since(start));
    }
    return 1000 * best / (kAtOnce * kTimes);
}

struct Times {
    double forward = 0;
    double backward = 0;
};

Times times_of(Kernels& gpu, const Problem& problem) {
    OnDevice on(gpu, problem, problem.dtype);
    Times times;
    times.forward = milliseconds(gpu, on, [&] { on.forward(); });
    times.backward = milliseconds(gpu, on, [&] { on.backward(); });
    return times;
}

void print_times(Kernels& gpu) {
    fmt::print("\nms forward + backward; uneven: the first sample is one token shorter\n");
    fmt::print("{:>8} {:>7} {:>7} {:>5}   {:<18} {:<18} {:<18} {:<18}\n", "samples", "heads", "tokens", "head", "own",
               "cuDNN", "own, uneven", "cuDNN, uneven");
    struct Line {
        int64_t samples;
        Heads heads;
        int64_t tokens;
    };
    for (const auto& [samples, heads, tokens] : std::initializer_list<Line>{{1, {12, 12, 64}, 1024},
                                                                            {4, {12, 12, 64}, 1024},
                                                                            {8, {12, 12, 64}, 1024},
                                                                            {64, {12, 12, 64}, 1024},
                                                                            {8, {16, 16, 64}, 1024},
                                                                            {8, {32, 4, 64}, 1024},
                                                                            {1, {32, 8, 128}, 2048},
                                                                            {4, {32, 8, 128}, 2048},
                                                                            {1, {32, 8, 128}, 4096}}) {
        fmt::print("{:>8} {:>7} {:>7} {:>5}  ", samples, fmt::format("{}/{}", heads.query, heads.key), tokens,
                   heads.size);
        for (const bool is_even : {true, false}) {
            for (const By by : {By::own, By::cudnn}) {
                Problem problem{.heads = heads,
                                .samples = std::vector<Sample>(static_cast<size_t>(samples), {1, tokens}),
                                .longest = tokens,
                                .by = by};
                problem.samples.front().length -= is_even ? 0 : 1;
                const Times times = times_of(gpu, problem);
                fmt::print(" {:<18}", fmt::format("{:.4f} + {:.4f}", times.forward, times.backward));
                std::fflush(stdout);
            }
        }
        fmt::print("\n");
    }
}

// What is wrong in one part does not hide the others.
bool succeeds(const char* name, const std::function<void()>& part) {
    try {
        part();
        return true;
    } catch (const std::exception& error) {
        fmt::print("\n{}: {}\n", name, error.what());
        return false;
    }
}

// Whether cuDNN would compute anything here.
void print_library() {
    cuda::CudnnAttention library(90);
    const Problem problem{.heads = {}, .samples = {{1, 64}}, .longest = 64, .by = By::cudnn};
    const AnyView nothing(nullptr, DType::bf16, 64, 64);
    const bool is_there = library.computes(op::Attention{problem.shape(), {}, nothing, nothing, nothing, nothing, {}});
    fmt::print("{}\n", is_there ? library.description() : cat("cuDNN is not used: ", library.why_not()));
}

}  // namespace

int main() {
    try {
        Arena arena(make_cuda_backing(0, int64_t{12} << 30));
        const auto gpu = make_cuda_kernels(0, arena);
        fmt::print("{}\n", gpu->description());
        print_library();
        const bool all = succeeds("errors", [&] { print_errors(*gpu); }) & succeeds("bits", [&] { print_bits(*gpu); }) &
                         succeeds("times", [&] { print_times(*gpu); });
        fmt::print("\n{}\n", gpu->numerics());
        return all ? 0 : 1;
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
}
