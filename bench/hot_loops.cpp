// The loops in which training spends its time, each run once for a counter of instructions to watch: scripts/counts runs
// this under callgrind and compares what it counts with bench/expected_counts.txt.
// One thread, AVX2 (valgrind knows no AVX-512), sizes that take tails along. Prints a line for each loop: its name and how
// many elements it worked on. Instructions are counted between START and STOP only; each loop has run once before, so that
// nothing is counted that happens only the first time.

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <valgrind/callgrind.h>

#include "accrue/base/random.h"
#include "accrue/data/documents/stories.h"
#include "accrue/data/tokenizers/tokenizer.h"
#include "accrue/kernels/device.h"
#include "accrue/kernels/one_by_one.h"

namespace accrue {
namespace {

void count(const char* name, int64_t elements, const std::function<void()>& loop) {
    loop();
    CALLGRIND_START_INSTRUMENTATION;
    loop();
    CALLGRIND_STOP_INSTRUMENTATION;
    CALLGRIND_DUMP_STATS_AT(name);
    std::printf("%s %lld\n", name, static_cast<long long>(elements));
}

// A matrix with its memory.
template <class T>
struct Matrix {
    Matrix(int64_t rows_, int64_t columns_, uint64_t seed)
        : values(static_cast<size_t>(rows_ * columns_)), view(values.data(), rows_, columns_) {
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = T(uniform(mix(seed, i)) - 0.5F);
        }
    }
    std::vector<T> values;
    View<T> view;
};

struct Sums {
    Sums(int64_t rows_, int64_t columns_)
        : values(static_cast<size_t>(rows_ * columns_)), rows(rows_), columns(columns_) {}
    [[nodiscard]] SumView view() {
        return {.data = values.data(), .rows = rows, .columns = columns, .per_unit = 0x1p20, .record = &record};
    }
    std::vector<int64_t> values;
    int64_t rows;
    int64_t columns;
    GrainRecord record;
};

void count_products(Kernels& kernels) {
    constexpr int64_t kRows = 130;
    constexpr int64_t kIn = 260;
    constexpr int64_t kOut = 520;
    const Matrix<float> input(kRows, kIn, 1);
    const Matrix<float> weight(kOut, kIn, 2);
    const Matrix<float> d_output(kRows, kOut, 3);
    Matrix<float> output(kRows, kOut, 4);
    Matrix<float> d_input(kRows, kIn, 5);
    Sums d_weight(kOut, kIn);
    const WeightView weights{View<const float>(weight.view), WeightLayout::out_in};
    constexpr int64_t kMultiplyAdds = kRows * kIn * kOut;
    count("product_forward", kMultiplyAdds, [&] { kernels.run(op::Linear{input.view, weights, {}, output.view}); });
    count("product_input", kMultiplyAdds, [&] { one_by_one::linear_input_grad(kernels, d_output.view, weights, d_input.view); });
    count("product_weight", kMultiplyAdds, [&] {
        one_by_one::add_linear_weight_grad(kernels, d_output.view, input.view, WeightLayout::out_in, d_weight.view());
    });
    // A product of one row is next to nothing beside adding it.
    count("exact_add", kOut * kIn, [&] {
        one_by_one::add_linear_weight_grad(kernels, d_output.view.slice_rows(0, 1), input.view.slice_rows(0, 1),
                                        WeightLayout::out_in, d_weight.view());
    });
}

void count_attention(Kernels& kernels) {
    constexpr int64_t kRows = 200;
    constexpr int64_t kHeads = 3;
    constexpr int64_t kHead = 64;
    constexpr int64_t kWidth = kHeads * kHead;
    const AttentionShape shape{
        .query_heads = kHeads, .key_heads = kHeads, .head_size = kHead, .scale = 0.125F, .dropout = {}};
    const std::vector<Segment> list = {{.first = 0, .length = kRows}};
    const Segments segments = Segments::of(list, list.data());
    const Matrix<float> query(kRows, kWidth, 1);
    const Matrix<float> key(kRows, kWidth, 2);
    const Matrix<float> value(kRows, kWidth, 3);
    const Matrix<float> d_output(kRows, kWidth, 4);
    Matrix<float> output(kRows, kWidth, 5);
    Matrix<float> log_sum(kRows, kHeads, 6);
    Matrix<float> d_query(kRows, kWidth, 7);
    Matrix<float> d_key(kRows, kWidth, 8);
    Matrix<float> d_value(kRows, kWidth, 9);
    constexpr int64_t kPairs = kRows * (kRows + 1) / 2 * kWidth;
    count("attention", kPairs,
          [&] { kernels.run(op::Attention{shape, segments, query.view, key.view, value.view, output.view, log_sum.view}); });
    count("attention_grad", kPairs, [&] {
        kernels.run(op::AttentionGrad{shape, segments, query.view, key.view, value.view, output.view, log_sum.view,
                               d_output.view, d_query.view, d_key.view, d_value.view});
    });
}

void count_rows(Kernels& kernels) {
    constexpr int64_t kRows = 65;
    constexpr int64_t kColumns = 771;
    const Matrix<float> input(kRows, kColumns, 1);
    const Matrix<float> gain(1, kColumns, 2);
    Matrix<float> output(kRows, kColumns, 3);
    Matrix<float> mean(kRows, 1, 4);
    Matrix<float> deviation(kRows, 1, 5);
    Matrix<float> d_input(kRows, kColumns, 6);
    constexpr int64_t kElements = kRows * kColumns;
    count("layer_norm", kElements,
          [&] { kernels.run(op::LayerNorm{input.view, gain.view, gain.view, 1e-5F, output.view, mean.view, deviation.view}); });
    count("layer_norm_grad", kElements, [&] {
        kernels.run(op::LayerNormBackward{.d_output = output.view,
                                          .input = input.view,
                                          .gain = gain.view,
                                          .mean = mean.view,
                                          .inverse_deviation = deviation.view,
                                          .d_stream = d_input.view,
                                          .grains = {},
                                          .d_gain = {},
                                          .d_bias = {}});
    });
    count("gelu_grad", kElements, [&] { kernels.run(op::GeluGrad{output.view, input.view, d_input.view}); });
    const std::vector<int32_t> targets(kRows, 7);
    Matrix<float> losses(1, kRows, 7);
    count("cross_entropy", kElements, [&] {
        kernels.run(op::CrossEntropy{output.view, View<const int32_t>(targets.data(), 1, kRows), losses.view, d_input.view});
    });
}

void count_optimizer(Kernels& kernels) {
    constexpr int64_t kElements = 200'003;
    Sums sums(1, kElements);
    for (size_t i = 0; i < sums.values.size(); ++i) {
        sums.values[i] = static_cast<int64_t>(mix(i) >> 44);
    }
    Matrix<float> weights(1, kElements, 1);
    Matrix<float> first(1, kElements, 2);
    Matrix<float> second(1, kElements, 3);
    std::vector<Bf16> copy(static_cast<size_t>(kElements));
    for (float& value : second.values) {
        value += 1;
    }
    const MeanView mean{.data = sums.values.data(), .elements = kElements, .factor = 0x1p-20};
    const AdamWSettings settings{.rate = 1e-3F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F, .decay = 0.1F};
    count("adamw", kElements, [&] {
        kernels.run(op::UpdateAdamW{mean, settings, weights.view, first.view, second.view, View<Bf16>(copy.data(), 1, kElements)});
    });
    count("squared_norm", kElements, [&] { (void)one_by_one::squared_norm(kernels, mean); });
}

void count_tokenizer(const std::string& file) {
    const auto tokenizer = open_tokenizer(file);
    const std::string text = stories(0, 50'000);
    count("tokenizer_encode", static_cast<int64_t>(text.size()),
          [&] { (void)tokenizer->encode(text, Special::without); });
}

int run(const std::string& tokenizer) {
    Pool pool(1);
    Arena arena(int64_t{64} << 20);
    const auto kernels = make_cpu_kernels(pool, arena, "avx2");
    count_products(*kernels);
    count_attention(*kernels);
    count_rows(*kernels);
    count_optimizer(*kernels);
    count_tokenizer(tokenizer);
    return 0;
}

}  // namespace
}  // namespace accrue

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: hot_loops TOKENIZER_JSON\n");
        return 2;
    }
    return accrue::run(argv[1]);
}
