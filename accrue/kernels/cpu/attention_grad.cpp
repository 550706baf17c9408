#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/attention_grad.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <type_traits>

#include "accrue/kernels/cpu/attention-inl.h"
#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/pieces.h"
#include "accrue/kernels/cpu/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// What a backward call is about.
struct AttentionGradCall {
    const AttentionShape& shape;
    AnyConstView query;
    AnyConstView key;
    AnyConstView value;
    AnyConstView output;
    View<const float> log_sum;
    AnyConstView d_output;
    AnyView d_query;
    AnyView d_key;
    AnyView d_value;
    Packing packing;
};

// One thread's work on one segment in one key head, for all query heads that read it. The gradients of keys and values
// are one chain of additions in the order of heads and queries.
template <Packing packing>
class HeadBackward {
public:
    HeadBackward(const AttentionGradCall& call, const Segment& segment, int64_t key_head, float* memory)
        : call_(call),
          segment_(segment),
          key_head_(key_head),
          size_(call.shape.head_size),
          depth_(words_of(size_, packing)),
          head_panels_((size_ + kTileColumns - 1) / kTileColumns) {
        const AttentionExtents extents(segment.length, size_);
        Scratch scratch(memory);
        key_memory_ = scratch.words(extents.keys * extents.head);
        value_memory_ = scratch.words(extents.keys * extents.head);
        key_column_memory_ = scratch.words(extents.columns * extents.head);
        d_keys_ = scratch.floats(extents.keys * head_panels_ * kTileColumns);
        d_values_ = scratch.floats(extents.keys * head_panels_ * kTileColumns);
        d_scores_ = scratch.words(extents.keys * kTileColumns);
        query_lanes_ = scratch.words(extents.head * kTileColumns);
        d_output_lanes_ = scratch.words(extents.head * kTileColumns);
        query_columns_ = scratch.words(extents.head * kTileColumns);
        d_output_columns_ = scratch.words(extents.head * kTileColumns);
        turned_ = scratch.floats(extents.head * kTileColumns);
        straight_ = scratch.floats(extents.head * kTileColumns);
        std::fill_n(d_keys_, extents.keys * head_panels_ * kTileColumns, 0.0F);
        std::fill_n(d_values_, extents.keys * head_panels_ * kTileColumns, 0.0F);
    }

    void run() {
        pack_keys_and_values();
        const int64_t group = call_.shape.query_heads / call_.shape.key_heads;
        for (int64_t head = key_head_ * group; head < (key_head_ + 1) * group; ++head) {
            BlockDropout dropout(call_.shape.dropout, head);
            for (int64_t first = 0; first < segment_.length; first += kTileColumns) {
                const QueryBlock block(first, segment_.length);
                if (call_.shape.dropout.probability > 0) {
                    dropout.start_block(call_.shape.dropout, segment_.first, block);
                }
                pack_block(block, head);
                load_row_values(block, head);
                for (int64_t key = 0; key < block.keys; key += kTileRows) {
                    add_panel(block, dropout, key);
                }
                write_d_query(block, head);
            }
        }
        write_tiles(d_keys_, call_.d_key);
        write_tiles(d_values_, call_.d_value);
    }

private:
    using Stored = std::conditional_t<packing == Packing::pairs, Bf16, float>;

    void pack_keys_and_values() {
        const OperandBlock rows{.first_lane = 0, .lanes = segment_.length, .first_depth = 0, .depth = size_};
        const OperandBlock columns{.first_lane = 0, .lanes = size_, .first_depth = 0, .depth = segment_.length};
        key_rows_ = rows_of(operand_of(call_.key, segment_, key_head_, size_, Contiguous::depth), rows, packing, depth_,
                            key_memory_);
        value_rows_ = rows_of(operand_of(call_.value, segment_, key_head_, size_, Contiguous::depth), rows, packing,
                              depth_, value_memory_);
        key_columns_ = rows_of(operand_of(call_.key, segment_, key_head_, size_, Contiguous::lanes), columns, packing,
                               attention_row_words(words_of(segment_.length, packing)), key_column_memory_);
    }

    // The block's queries and output gradients: with queries as lanes, and with the head's dimensions as lanes.
    void pack_block(const QueryBlock& block, int64_t head) {
        const OperandBlock lanes{.first_lane = block.first, .lanes = block.count, .first_depth = 0, .depth = size_};
        const OperandBlock columns{.first_lane = 0, .lanes = size_, .first_depth = block.first, .depth = block.count};
        const WordRange head_words{0, depth_};
        const WordRange query_words{0, words_of(block.count, packing)};
        pack_panel(operand_of(call_.query, segment_, head, size_, Contiguous::depth), lanes, head_words, packing,
                   block.width, query_lanes_);
        pack_panel(operand_of(call_.d_output, segment_, head, size_, Contiguous::depth), lanes, head_words, packing,
                   block.width, d_output_lanes_);
        pack_columns(operand_of(call_.query, segment_, head, size_, Contiguous::lanes), columns, query_words, packing,
                     query_columns_);
        pack_columns(operand_of(call_.d_output, segment_, head, size_, Contiguous::lanes), columns, query_words,
                     packing, d_output_columns_);
    }

    // Each query's log_sum and d_output . output.
    void load_row_values(const QueryBlock& block, int64_t head) {
        std::fill_n(log_sums_, kTileColumns, 0.0F);
        std::fill_n(means_, kTileColumns, 0.0F);
        with_type(call_.output, [&](auto output) HWY_ATTR {
            with_type(call_.d_output, [&](auto d_output) HWY_ATTR {
                for (int64_t q = 0; q < block.count; ++q) {
                    const int64_t row = segment_.first + block.first + q;
                    const auto* a = output.row(row) + head * size_;
                    const auto* b = d_output.row(row) + head * size_;
                    log_sums_[q] = call_.log_sum.row(row)[head];
                    means_[q] = sum_over(size_, [&](int64_t i, int64_t left)
                                                    HWY_ATTR { return hn::Mul(load(a + i, left), load(b + i, left)); });
                }
            });
        });
    }

    // Keys key .. key + kTileRows - 1 against the block: their part of all three gradients.
    void add_panel(const QueryBlock& block, const BlockDropout& dropout, int64_t key) {
        HWY_ALIGN float scores[kTileElements];
        HWY_ALIGN float d_probabilities[kTileElements];
        HWY_ALIGN Stored probabilities[kTileElements];
        HWY_ALIGN Stored d_scores[kTileElements];
        multiply_tile(key_rows_.from(key), query_lanes_, block.width, depth_, packing, Chain::start, scores);
        multiply_tile(value_rows_.from(key), d_output_lanes_, block.width, depth_, packing, Chain::start,
                      d_probabilities);
        for (int64_t row = 0; row < kTileRows; row += kPerWord<packing>) {
            for (int64_t lane = 0; lane < block.width; lane += kLanes) {
                const Place place{.key = key + row, .lane = lane, .offset = row * kTileColumns + lane};
                const auto d_score =
                    differentiate(block, dropout, place, scores, d_probabilities, probabilities, d_scores);
                auto word = hn::BitCast(Words(), d_score);
                if constexpr (packing == Packing::pairs) {
                    const Place next{.key = place.key + 1, .lane = lane, .offset = place.offset + kTileColumns};
                    word = paired_words(
                        d_score, differentiate(block, dropout, next, scores, d_probabilities, probabilities, d_scores));
                }
                hn::Store(word, Words(), d_scores_ + place.key / kPerWord<packing> * block.width + lane);
            }
        }
        add_products(block, probabilities, d_output_columns_, d_values_ + key * head_panels_ * kTileColumns);
        add_products(block, d_scores, query_columns_, d_keys_ + key * head_panels_ * kTileColumns);
    }

    // One key and the queries from `lane` on; where they lie in a tile.
    struct Place {
        int64_t key;
        int64_t lane;
        int64_t offset;
    };

    // Probabilities and the scores' gradients of one vector of a tile; returns the latter.
    HWY_INLINE FloatVector differentiate(const QueryBlock& block, const BlockDropout& dropout, const Place& place,
                                         const float* scores, const float* d_probabilities, Stored* probabilities,
                                         Stored* d_scores) const {
        const Floats d;
        const auto scale = hn::Set(d, call_.shape.scale);
        const auto score = hn::Load(d, scores + place.offset);
        const auto p = exponential_below_zero(hn::MulSub(score, scale, hn::Load(d, log_sums_ + place.lane)));
        auto d_p = hn::Load(d, d_probabilities + place.offset);
        auto dropped = p;
        if (call_.shape.dropout.probability > 0) {
            dropped = dropout.apply(p, place.key, place.lane);
            d_p = dropout.apply(d_p, place.key, place.lane);
        }
        auto d_score = hn::Mul(hn::Mul(p, hn::Sub(d_p, hn::Load(d, means_ + place.lane))), scale);
        if (place.key > block.first) {
            const auto seen = seen_by(place.key, block.first + place.lane);
            dropped = hn::IfThenElseZero(seen, dropped);
            d_score = hn::IfThenElseZero(seen, d_score);
        }
        store_quickly(dropped, probabilities + place.offset);
        store_quickly(d_score, d_scores + place.offset);
        return d_score;
    }

    // tiles[key, dimension] += sum over the block's queries of left[key, query] * right[query, dimension]
    void add_products(const QueryBlock& block, const Stored* left, const uint32_t* right, float* tiles) const {
        const LeftRows rows{reinterpret_cast<const uint32_t*>(left), kTileColumns / kPerWord<packing>, kTileRows};
        const int64_t words = words_of(block.count, packing);
        for (int64_t dimension = 0; dimension < size_; dimension += kTileColumns) {
            multiply_tile(rows, right + dimension * words, panel_width(dimension, size_), words, packing, Chain::go_on,
                          tiles + dimension * kTileRows);
        }
    }

    void write_d_query(const QueryBlock& block, int64_t head) {
        const int64_t words = words_of(block.keys, packing);
        for (int64_t dimension = 0; dimension < size_; dimension += kTileRows) {
            multiply_tile(key_columns_.from(dimension), d_scores_, block.width, words, packing, Chain::start,
                          turned_ + dimension * kTileColumns);
        }
        const int64_t first_row = segment_.first + block.first;
        with_type(call_.d_query, [&](auto typed) HWY_ATTR {
            write_turned(turned_, straight_, block, size_,
                         typed.slice_rows(first_row, block.count).slice_columns(head * size_, size_));
        });
    }

    void write_tiles(const float* tiles, AnyView output) const {
        with_type(output, [&](auto typed) HWY_ATTR {
            for (int64_t key = 0; key < segment_.length; ++key) {
                const float* panels = tiles + key / kTileRows * kTileRows * head_panels_ * kTileColumns;
                auto* row = typed.row(segment_.first + key) + key_head_ * size_;
                for (int64_t dimension = 0; dimension < size_; dimension += kTileColumns) {
                    const float* from = panels + dimension * kTileRows + key % kTileRows * kTileColumns;
                    auto* to = row + dimension;
                    for_lanes(std::min(kTileColumns, size_ - dimension),
                              [&](int64_t i, int64_t left) HWY_ATTR { store(load(from + i, left), to + i, left); });
                }
            }
        });
    }

    const AttentionGradCall& call_;
    const Segment& segment_;
    int64_t key_head_;
    int64_t size_;
    int64_t depth_;
    int64_t head_panels_;
    uint32_t* key_memory_;
    uint32_t* value_memory_;
    uint32_t* key_column_memory_;
    LeftRows key_rows_{};  // rows are keys, the depth is the head
    LeftRows value_rows_{};
    LeftRows key_columns_{};  // rows are the head's dimensions, the depth is the keys
    float* d_keys_;           // tiles: for each panel of keys, its panels of dimensions
    float* d_values_;
    uint32_t* d_scores_;     // right panel: lanes are queries, the depth is the keys
    uint32_t* query_lanes_;  // right panels: lanes are queries, the depth is the head
    uint32_t* d_output_lanes_;
    uint32_t* query_columns_;  // right panels: lanes are the head's dimensions, the depth is the queries
    uint32_t* d_output_columns_;
    float* turned_;
    float* straight_;
    HWY_ALIGN float log_sums_[kTileColumns];
    HWY_ALIGN float means_[kTileColumns];
};

void attention_grad(const Context& context, const AttentionShape& shape, std::span<const Segment> segments,
                    AnyConstView query, AnyConstView key, AnyConstView value, AnyConstView output,
                    View<const float> log_sum, AnyConstView d_output, AnyView d_query, AnyView d_key, AnyView d_value) {
    const int64_t longest = longest_of(segments);
    const int64_t thread_floats = attention_grad_thread_floats(longest, shape.head_size);
    const Arena::Block scratch =
        context.arena.take(attention_grad_workspace_bytes(longest, shape.head_size, context.pool.threads()));
    auto* memory = reinterpret_cast<float*>(scratch.data());
    const AttentionGradCall call{.shape = shape,
                                 .query = query,
                                 .key = key,
                                 .value = value,
                                 .output = output,
                                 .log_sum = log_sum,
                                 .d_output = d_output,
                                 .d_query = d_query,
                                 .d_key = d_key,
                                 .d_value = d_value,
                                 .packing = packing_of({query, key, value, d_output}, context.set)};
    const auto count = static_cast<int64_t>(segments.size());
    context.pool.run(count * shape.key_heads, [&](int64_t item, int thread) HWY_ATTR {
        const Segment& segment = segments[static_cast<size_t>(item / shape.key_heads)];
        float* own = memory + thread * thread_floats;
        if (call.packing == Packing::pairs) {
            HeadBackward<Packing::pairs>(call, segment, item % shape.key_heads, own).run();
        } else {
            HeadBackward<Packing::floats>(call, segment, item % shape.key_heads, own).run();
        }
    });
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::cpu {

void attention_grad(const Context& context, const AttentionShape& shape, std::span<const Segment> segments,
                    AnyConstView query, AnyConstView key, AnyConstView value, AnyConstView output,
                    View<const float> log_sum, AnyConstView d_output, AnyView d_query, AnyView d_key, AnyView d_value) {
    pick(context.set, N_SCALAR::attention_grad, N_AVX2::attention_grad, N_AVX3::attention_grad)(
        context, shape, segments, query, key, value, output, log_sum, d_output, d_query, d_key, d_value);
}

}  // namespace accrue::cpu
#endif
