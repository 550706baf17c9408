#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "accrue/base/random.h"
#include "accrue/kernels/kernels.h"

// Attention of random samples on any device.
namespace accrue::bench {

struct Heads {
    int64_t query = 1;
    int64_t key = 1;
    int64_t size = 64;

    [[nodiscard]] int64_t row() const { return (query + 2 * key) * size; }
};

// A segment: the same seed has the same rows, wherever it stands.
struct Sample {
    uint64_t seed = 1;
    int64_t length = 1;
};

enum class By { own, cudnn };

constexpr const char* text_of(By by) {
    return by == By::own ? "own" : "cuDNN";
}

struct Problem {
    Heads heads;
    DType dtype = DType::bf16;
    std::vector<Sample> samples;
    int64_t longest = 0;  // of the run
    By by = By::own;

    [[nodiscard]] int64_t rows() const {
        int64_t all = 0;
        for (const Sample& sample : samples) {
            all += sample.length;
        }
        return all;
    }
    // Our own kernels compute what has no longest segment.
    [[nodiscard]] AttentionShape shape() const {
        return {.query_heads = heads.query,
                .key_heads = heads.key,
                .head_size = heads.size,
                .scale = 1 / std::sqrt(static_cast<float>(heads.size)),
                .longest = by == By::own ? 0 : longest};
    }
};

inline uint16_t narrow(DType dtype, float value) {
    return dtype == DType::bf16 ? Bf16(value).bits : Fp16(value).bits;
}

inline float wide(DType dtype, const std::byte* element) {
    uint16_t bits = 0;
    std::memcpy(&bits, element, sizeof(bits));
    if (dtype == DType::fp32) {
        float value = 0;
        std::memcpy(&value, element, sizeof(value));
        return value;
    }
    if (dtype == DType::bf16) {
        Bf16 value;
        value.bits = bits;
        return static_cast<float>(value);
    }
    Fp16 value;
    value.bits = bits;
    return static_cast<float>(value);
}

// The rows of all samples, about as large as activations are; equal neighbours are made once.
inline std::vector<uint16_t> random_rows(const Problem& problem, uint64_t salt, int64_t columns) {
    std::vector<uint16_t> all;
    std::vector<uint16_t> one;
    const Sample* last = nullptr;
    for (const Sample& sample : problem.samples) {
        if (last == nullptr || last->seed != sample.seed || last->length != sample.length) {
            one.clear();
            for (int64_t i = 0; i < sample.length * columns; ++i) {
                const float x = uniform(mix(sample.seed, salt, static_cast<uint64_t>(i)));
                one.push_back(narrow(problem.dtype, 3 * (x - 0.5F)));
            }
        }
        last = &sample;
        all.insert(all.end(), one.begin(), one.end());
    }
    return all;
}

// A matrix as it came from a device.
struct Values {
    DType dtype = DType::bf16;
    int64_t columns = 0;
    std::vector<std::byte> bytes;

    [[nodiscard]] std::span<const std::byte> rows(int64_t first, int64_t count) const {
        const auto row = static_cast<size_t>(columns * bytes_of(dtype));
        return std::span(bytes).subspan(static_cast<size_t>(first) * row, static_cast<size_t>(count) * row);
    }
    [[nodiscard]] double at(size_t i) const {
        return wide(dtype, bytes.data() + i * static_cast<size_t>(bytes_of(dtype)));
    }
};

struct Results {
    Values output;
    Values log_sum;
    Values d_qkv;
};

// A problem on a device.
class OnDevice {
public:
    // `results`: the dtype of what is computed.
    OnDevice(Kernels& kernels, const Problem& problem, DType results)
        : kernels_(kernels),
          problem_(problem),
          qkv_(filled(random_rows(problem, 1, problem.heads.row()), problem.heads.row())),
          d_output_(filled(random_rows(problem, 2, problem.heads.query * problem.heads.size),
                           problem.heads.query * problem.heads.size)),
          output_(poison(results, problem.heads.query * problem.heads.size)),
          d_qkv_(poison(results, problem.heads.row())),
          log_sum_(poison(DType::fp32, problem.heads.query)) {
        int64_t first = 0;
        for (const Sample& sample : problem.samples) {
            list_.push_back({first, sample.length});
            first += sample.length;
        }
        device_list_ = take_matrix<Segment>(kernels.arena(), 1, std::ssize(list_));
        upload(kernels, std::span<const Segment>(list_), device_list_.view.data);
        segments_ = Segments::of(list_, device_list_.view.data);
    }

    void forward() {
        const AnyConstView qkv = qkv_.view;
        kernels_.run(op::Attention{problem_.shape(), segments_, query(qkv), key(qkv), value(qkv), output_.view,
                                   log_sum_.view.as<float>()});
    }
    void backward() {
        const AnyConstView qkv = qkv_.view;
        const AnyView d_qkv = d_qkv_.view;
        kernels_.run(op::AttentionGrad{problem_.shape(), segments_, query(qkv), key(qkv), value(qkv), output_.view,
                                       log_sum_.view.as<float>(), d_output_.view, query(d_qkv), key(d_qkv),
                                       value(d_qkv)});
    }
    [[nodiscard]] Results results() {
        return {.output = fetched(output_), .log_sum = fetched(log_sum_), .d_qkv = fetched(d_qkv_)};
    }
    void wait() {
        std::array<std::byte, 4> some{};
        kernels_.run(op::Download{.device = {log_sum_.block.data(), some.size()}, .host = some});
    }

private:
    [[nodiscard]] LeasedAny filled(const std::vector<uint16_t>& values, int64_t columns) {
        LeasedAny matrix = take_any_matrix(kernels_.arena(), problem_.dtype, problem_.rows(), columns);
        upload(kernels_, std::as_bytes(std::span(values)), matrix.block.data());
        return matrix;
    }
    // What nobody writes stays not a number.
    [[nodiscard]] LeasedAny poison(DType dtype, int64_t columns) {
        LeasedAny matrix = take_any_matrix(kernels_.arena(), dtype, problem_.rows(), columns);
        const std::vector<std::byte> bytes(static_cast<size_t>(matrix.view.elements() * bytes_of(dtype)),
                                           std::byte{0xff});
        upload(kernels_, std::span<const std::byte>(bytes), matrix.block.data());
        return matrix;
    }
    [[nodiscard]] Values fetched(const LeasedAny& matrix) {
        Values values{.dtype = matrix.view.dtype, .columns = matrix.view.columns, .bytes = {}};
        values.bytes.resize(static_cast<size_t>(matrix.view.elements() * bytes_of(matrix.view.dtype)));
        download(kernels_, static_cast<const std::byte*>(matrix.block.data()), std::span(values.bytes));
        return values;
    }
    template <class View>
    [[nodiscard]] View query(const View& qkv) const {
        return qkv.slice_columns(0, problem_.heads.query * problem_.heads.size);
    }
    template <class View>
    [[nodiscard]] View key(const View& qkv) const {
        const Heads& heads = problem_.heads;
        return qkv.slice_columns(heads.query * heads.size, heads.key * heads.size);
    }
    template <class View>
    [[nodiscard]] View value(const View& qkv) const {
        const Heads& heads = problem_.heads;
        return qkv.slice_columns((heads.query + heads.key) * heads.size, heads.key * heads.size);
    }

    Kernels& kernels_;
    const Problem& problem_;
    LeasedAny qkv_;
    LeasedAny d_output_;
    LeasedAny output_;
    LeasedAny d_qkv_;
    LeasedAny log_sum_;
    std::vector<Segment> list_;
    Leased<Segment> device_list_;
    Segments segments_;
};

inline Results computed(Kernels& kernels, const Problem& problem, DType results) {
    OnDevice on(kernels, problem, results);
    on.forward();
    on.backward();
    return on.results();
}

}  // namespace accrue::bench
