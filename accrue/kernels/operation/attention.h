#pragma once

#include <algorithm>
#include <span>

#include "accrue/kernels/operation/basics.h"

namespace accrue {

// Which rows of its segment a row sees: those before it and itself, or all of them.
enum class AttentionMask { causal, full };

// How many rows of a segment row i of it sees, the first ones.
[[nodiscard]] constexpr int64_t rows_seen(AttentionMask mask, int64_t i, int64_t length) {
    return mask == AttentionMask::causal ? i + 1 : length;
}

// A run of rows that attend to each other.
struct Segment {
    int64_t first = 0;
    int64_t length = 0;
};

// The segments of a micro-batch. The list lies on the device; what must be known to start work stands beside it.
struct Segments {
    View<const Segment> list;  // [1, segments]
    int64_t longest = 0;
    int64_t pairs = 0;  // of a row and one that it sees

    // Of a list that is on the host, to be uploaded to `device`, or to be read where it is.
    [[nodiscard]] static Segments of(std::span<const Segment> host, const Segment* device,
                                     AttentionMask mask = AttentionMask::causal) {
        Segments all{.list = {device, 1, std::ssize(host)}};
        for (const Segment& segment : host) {
            const int64_t length = segment.length;
            all.longest = std::max(all.longest, length);
            all.pairs += mask == AttentionMask::causal ? length * (length + 1) / 2 : length * length;
        }
        return all;
    }
};

struct AttentionShape {
    int64_t query_heads = 1;
    int64_t key_heads = 1;  // divides query_heads; query head h reads key head h / (query_heads / key_heads)
    int64_t head_size = 1;
    float scale = 1;
    AttentionMask mask = AttentionMask::causal;
    // No segment of a run is longer, in whichever of its micro-batches; 0 = unknown. A device may choose by it how it
    // computes all of them.
    int64_t longest = 0;
    // Of the probabilities: row = the query's, column c = head * 2^32 + the key's place in its segment.
    Dropout dropout = {};
};

namespace op {

// In place: each head's pair (x[i], x[i + head/2]) is turned by the angle whose cosine and sine stand in
// table[positions[r]] = cos[0..head/2), sin[0..head/2). `head` = table.columns.
struct Rope {
    static constexpr std::string_view kName = "rope";
    AnyView heads;
    View<const int32_t> positions;
    View<const float> table;

    [[nodiscard]] static Part part() { return Part::attention; }
    void check() const;
    void count(WorkByPart& work) const;
};

// The same by the negative angle: the gradient of rope.
struct RopeGrad {
    static constexpr std::string_view kName = "rope_grad";
    AnyView d_heads;
    View<const int32_t> positions;
    View<const float> table;

    [[nodiscard]] static Part part() { return Part::attention; }
    void check() const;
    void count(WorkByPart& work) const;
};

// output = dropout(softmax(scale * query key^T, masked within each segment)) value, per query head.
// Takes query any [rows, query_heads * head_size], key and value any [rows, key_heads * head_size], output any like
// query, log_sum [rows, query_heads]: the logarithm of each row's sum of exponentials, for the backward pass.
// With bf16 views a device may round probabilities, and backward their gradients, to bf16 before their products.
// Never stores a whole score matrix: at most some rows of it per thread. A device may know some masks only: an error.
struct Attention {
    static constexpr std::string_view kName = "attention";
    AttentionShape shape;
    Segments segments;
    AnyConstView query;
    AnyConstView key;
    AnyConstView value;
    AnyView output;
    View<float> log_sum;

    [[nodiscard]] static Part part() { return Part::attention; }
    void check() const;
    void count(WorkByPart& work) const;
};

// The gradients of query, key and value from d_output and what Attention stored.
struct AttentionGrad {
    static constexpr std::string_view kName = "attention_grad";
    AttentionShape shape;
    Segments segments;
    AnyConstView query;
    AnyConstView key;
    AnyConstView value;
    AnyConstView output;
    View<const float> log_sum;
    AnyConstView d_output;
    AnyView d_query;
    AnyView d_key;
    AnyView d_value;

    [[nodiscard]] static Part part() { return Part::attention; }
    void check() const;
    void count(WorkByPart& work) const;
};

}  // namespace op
}  // namespace accrue
