#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/attention_grad.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <limits>

#include "accrue/kernels/cpu/attention-inl.h"
#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/elementwise_plan.h"
#include "accrue/kernels/cpu/pieces.h"

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

// Neighbouring keys of a segment: as many as a tile has columns, or what is left.
struct KeyBlock {
    int64_t first = 0;  // in the segment
    int64_t count = 0;
    int64_t width = 0;  // lanes: count, rounded up to whole vectors

    KeyBlock(int64_t first_key, int64_t length)
        : first(first_key), count(std::min(kTileColumns, length - first_key)), width(panel_width(0, count)) {}
};

// One thread's work on one segment in one key head, for all query heads that read it. A row is a query, a lane is one of
// the block's keys. The gradients of keys and values are one chain of additions in the order of heads and queries, those
// of queries one in the order of keys.
template <Packing packing>
class HeadBackward {
public:
    HeadBackward(const AttentionGradCall& call, const Segment& segment, int64_t key_head, float* memory)
        : call_(call),
          segment_(segment),
          key_head_(key_head),
          group_(call.shape.query_heads / call.shape.key_heads),
          size_(call.shape.head_size),
          depth_(words_of(size_, packing)),
          head_panels_((size_ + kTileColumns - 1) / kTileColumns),
          panel_lanes_(panel_width(0, (size_ + head_panels_ - 1) / head_panels_)),
          scale_(static_cast<float>(call.shape.scale / kLogOfTwo)),
          dropping_(call.shape.dropout.probability > 0),
          keep_(call.shape.dropout) {
        const AttentionExtents extents(segment.length, size_);
        Scratch scratch(memory);
        query_memory_ = scratch.words(extents.keys * extents.head);
        d_output_memory_ = scratch.words(extents.keys * extents.head);
        query_column_memory_ = scratch.words(extents.columns * extents.head);
        d_output_column_memory_ = scratch.words(extents.columns * extents.head);
        d_queries_ = scratch.floats(extents.keys * head_panels_ * kTileColumns);
        d_keys_ = scratch.floats(extents.key_blocks * kMostQueries * extents.head);
        d_values_ = scratch.floats(extents.key_blocks * kMostQueries * extents.head);
        key_lanes_ = scratch.words(extents.head * kTileColumns);
        value_lanes_ = scratch.words(extents.head * kTileColumns);
        key_columns_ = scratch.words(extents.head * kTileColumns);
        straight_ = scratch.floats(extents.head * kTileColumns);
        log_sums_ = scratch.floats(extents.columns);
        means_ = scratch.floats(extents.columns);
    }

    void run() {
        for (int64_t head = key_head_ * group_; head < (key_head_ + 1) * group_; ++head) {
            pack_queries(head);
            load_row_values(head);
            for (int64_t first = 0; first < segment_.length; first += kTileColumns) {
                add_block(KeyBlock(first, segment_.length), head);
            }
            write_d_query(head);
        }
    }

private:
    // Queries whose probabilities stay in the first-level cache until the gradients of keys and values have theirs.
    static constexpr int64_t kStretchWords = 64;
    static constexpr int64_t kStretch = kStretchWords * kPerWord<packing>;

    // The head's queries and output gradients: as rows, and with the head's dimensions as rows.
    void pack_queries(int64_t head) {
        const OperandBlock rows{.first_lane = 0, .lanes = segment_.length, .first_depth = 0, .depth = size_};
        const OperandBlock columns{.first_lane = 0, .lanes = size_, .first_depth = 0, .depth = segment_.length};
        const int64_t stride = attention_row_words(words_of(segment_.length, packing));
        query_rows_ = rows_of(operand_of(call_.query, segment_, head, size_, Contiguous::depth), rows, packing, depth_,
                              query_memory_);
        d_output_rows_ = rows_of(operand_of(call_.d_output, segment_, head, size_, Contiguous::depth), rows, packing,
                                 depth_, d_output_memory_);
        query_columns_ = rows_of(operand_of(call_.query, segment_, head, size_, Contiguous::lanes), columns, packing,
                                 stride, query_column_memory_);
        d_output_columns_ = rows_of(operand_of(call_.d_output, segment_, head, size_, Contiguous::lanes), columns,
                                    packing, stride, d_output_column_memory_);
    }

    // Each query's log_sum, for powers of two, and d_output . output. Rows that fill up the last tile get probability 0.
    void load_row_values(int64_t head) {
        std::fill_n(log_sums_ + segment_.length, kTileRows, std::numeric_limits<float>::infinity());
        std::fill_n(means_ + segment_.length, kTileRows, 0.0F);
        with_type(call_.output, [&](auto output) HWY_ATTR {
            with_type(call_.d_output, [&](auto d_output) HWY_ATTR {
                for (int64_t q = 0; q < segment_.length; ++q) {
                    const int64_t row = segment_.first + q;
                    const auto* a = output.row(row) + head * size_;
                    const auto* b = d_output.row(row) + head * size_;
                    log_sums_[q] = static_cast<float>(call_.log_sum.row(row)[head] / kLogOfTwo);
                    means_[q] = sum_over(size_, [&](int64_t i, int64_t left)
                                                    HWY_ATTR { return hn::Mul(load(a + i, left), load(b + i, left)); });
                }
            });
        });
    }

    // The block's keys and values with keys as lanes, and its keys with the head's dimensions as lanes.
    void pack_block(const KeyBlock& block) {
        const OperandBlock lanes{.first_lane = block.first, .lanes = block.count, .first_depth = 0, .depth = size_};
        pack_panel(operand_of(call_.key, segment_, key_head_, size_, Contiguous::depth), lanes, {0, depth_}, packing,
                   block.width, key_lanes_);
        pack_panel(operand_of(call_.value, segment_, key_head_, size_, Contiguous::depth), lanes, {0, depth_}, packing,
                   block.width, value_lanes_);
        const int64_t words = words_of(block.count, packing);
        for (int64_t dimension = 0; dimension < size_; dimension += panel_lanes_) {
            const OperandBlock columns{.first_lane = dimension,
                                       .lanes = std::min(panel_lanes_, size_ - dimension),
                                       .first_depth = block.first,
                                       .depth = block.count};
            pack_panel(operand_of(call_.key, segment_, key_head_, size_, Contiguous::lanes), columns, {0, words},
                       packing, panel_width(0, columns.lanes), key_columns_ + dimension * words);
        }
    }

    // All queries that see the block's keys: their part of all three gradients.
    void add_block(const KeyBlock& block, int64_t head) {
        pack_block(block);
        const int64_t place = group_ == 1 ? 0 : block.first * AttentionExtents(segment_.length, size_).head;
        const int64_t after = std::clamp<int64_t>(segment_.length - block.first - kTileColumns, 0, kTileColumns);
        const SoonRows next_keys = soon_rows_of(operand_of(call_.key, segment_, key_head_, size_, Contiguous::depth),
                                                block.first + kTileColumns, after, size_);
        const SoonRows next_values =
            soon_rows_of(operand_of(call_.value, segment_, key_head_, size_, Contiguous::depth),
                         block.first + kTileColumns, after, size_);
        Chain chain = head % group_ == 0 ? Chain::start : Chain::go_on;
        for (int64_t start = block.first / kTileRows * kTileRows; start < segment_.length; start += kStretch) {
            const int64_t end = std::min(segment_.length, start + kStretch);
            for (int64_t query = start; query < end; query += kTileRows) {
                const int64_t offset = (query - start) / kPerWord<packing> * block.width;
                next_keys.ask_for((query - block.first) / kTileRows);
                next_values.ask_for((query - block.first) / kTileRows);
                add_tile(block, head, query, probabilities_ + offset, d_scores_ + offset);
            }
            add_products(block, d_output_columns_, probabilities_, start, end, chain, d_values_ + place);
            add_products(block, query_columns_, d_scores_, start, end, chain, d_keys_ + place);
            chain = Chain::go_on;
        }
        if ((head + 1) % group_ == 0) {
            write_block(block, d_values_ + place, 1, call_.d_value);
            write_block(block, d_keys_ + place, call_.shape.scale, call_.d_key);
        }
    }

    // Queries query .. query + kTileRows - 1: the words of their probabilities and of their scores' gradients, and the
    // block's part of their own gradients.
    void add_tile(const KeyBlock& block, int64_t head, int64_t query, uint32_t* probability_words,
                  uint32_t* d_score_words) {
        Tile tile;
        multiply_tile(query_rows_.from(query), key_lanes_, block.width, depth_, packing, Chain::start, tile.scores);
        multiply_tile(d_output_rows_.from(query), value_lanes_, block.width, depth_, packing, Chain::start,
                      tile.d_probabilities);
        if (dropping_ || query < block.first + block.width - 1) {
            differentiate<Elements::some>(block, head, query, tile, probability_words, d_score_words);
        } else {
            differentiate<Elements::all>(block, head, query, tile, probability_words, d_score_words);
        }
        const LeftRows rows = packing == Packing::pairs ? LeftRows{tile.d_score_rows, kTileColumns / 2, kTileRows}
                                                        : LeftRows{d_score_words, block.width, kTileRows};
        const int64_t words = words_of(block.count, packing);
        const int64_t seen = words_of(std::min(block.count, query + kTileRows - block.first), packing);
        float* sums = d_queries_ + query * head_panels_ * kTileColumns;
        for (int64_t dimension = 0; dimension < size_; dimension += panel_lanes_, sums += kTileElements) {
            multiply_tile(rows, key_columns_ + dimension * words,
                          panel_width(0, std::min(panel_lanes_, size_ - dimension)), seen, packing,
                          block.first == 0 ? Chain::start : Chain::go_on, sums);
        }
    }

    struct Tile {
        HWY_ALIGN float scores[kTileElements];
        HWY_ALIGN float d_probabilities[kTileElements];
        HWY_ALIGN uint32_t d_score_rows[kTileElements / 2];  // bf16, only for pairs
    };

    // Whether every element of a tile is seen and kept.
    enum class Elements { all, some };

    template <Elements elements>
    HWY_INLINE void differentiate(const KeyBlock& block, int64_t head, int64_t query, Tile& tile,
                                  uint32_t* HWY_RESTRICT probability_words,
                                  uint32_t* HWY_RESTRICT d_score_words) const {
        const int64_t width = block.width;
        auto* rows = reinterpret_cast<Bf16*>(tile.d_score_rows);
        for (int64_t row = 0; row < kTileRows; row += kPerWord<packing>) {
            for (int64_t lane = 0; lane < width; lane += kLanes) {
                const int64_t offset = row * kTileColumns + lane;
                const Gradients first = gradients_of<elements>(block, head, query + row, lane, tile, offset);
                auto probability_word = hn::BitCast(Words(), first.probability);
                auto d_score_word = hn::BitCast(Words(), first.d_score);
                if constexpr (packing == Packing::pairs) {
                    const int64_t next = offset + kTileColumns;
                    const Gradients second = gradients_of<elements>(block, head, query + row + 1, lane, tile, next);
                    probability_word = paired_words(first.probability, second.probability);
                    d_score_word = store_and_pair(first.d_score, second.d_score, rows + offset, rows + next);
                }
                const int64_t word = row / kPerWord<packing> * width + lane;
                hn::Store(probability_word, Words(), probability_words + word);
                hn::Store(d_score_word, Words(), d_score_words + word);
            }
        }
    }

    struct Gradients {
        FloatVector probability;  // after dropout
        FloatVector d_score;      // before it is scaled
    };

    // One query and the keys from `lane` on.
    template <Elements elements>
    HWY_INLINE Gradients gradients_of(const KeyBlock& block, int64_t head, int64_t query, int64_t lane,
                                      const Tile& tile, int64_t offset) const {
        const Floats d;
        const auto score = hn::Load(d, tile.scores + offset);
        const auto p = power_of_two_below_zero(hn::MulSub(score, hn::Set(d, scale_), hn::Set(d, log_sums_[query])));
        auto d_p = hn::Load(d, tile.d_probabilities + offset);
        const auto mean = hn::Set(d, means_[query]);
        if constexpr (elements == Elements::all) {
            return {p, hn::Mul(p, hn::Sub(d_p, mean))};
        }
        auto dropped = p;
        if (dropping_) {
            const int64_t row = segment_.first + std::min(query, segment_.length - 1);
            const uint64_t of_row = mix(call_.shape.dropout.site, call_.shape.dropout.rows.data[row]);
            const uint64_t column = (static_cast<uint64_t>(head) << 32) + static_cast<uint64_t>(block.first + lane);
            const auto seed_of = [&](int64_t i)
                                     HWY_ATTR { return of_row + (column + static_cast<uint64_t>(i)) * kColumnStep; };
            dropped = keep_.apply(p, seed_of);
            d_p = keep_.apply(d_p, seed_of);
        }
        const auto seen = seen_up_to(query, block.first + lane);
        return {hn::IfThenElseZero(seen, dropped), hn::IfThenElseZero(seen, hn::Mul(p, hn::Sub(d_p, mean)))};
    }

    // turned[dimension][key] (+)= sum over queries start .. end - 1 of columns[dimension, query] * right[query, key]
    void add_products(const KeyBlock& block, const LeftRows& columns, const uint32_t* right, int64_t start, int64_t end,
                      Chain chain, float* turned) const {
        for (int64_t dimension = 0; dimension < size_; dimension += kTileRows) {
            multiply_tile(columns.from(dimension, start / kPerWord<packing>), right, block.width,
                          words_of(end - start, packing), packing, chain, turned + dimension * kTileColumns);
        }
    }

    void write_block(const KeyBlock& block, float* turned, float scale, AnyView output) {
        const Floats d;
        for (int64_t i = 0; i < size_ * kTileColumns; i += kLanes) {
            hn::Store(hn::Mul(hn::Load(d, turned + i), hn::Set(d, scale)), d, turned + i);
        }
        with_type(output, [&](auto typed) HWY_ATTR {
            write_turned(
                turned, straight_, block.count, size_,
                typed.slice_rows(segment_.first + block.first, block.count).slice_columns(key_head_ * size_, size_));
        });
    }

    void write_d_query(int64_t head) const {
        const auto scale = hn::Set(Floats(), call_.shape.scale);
        with_type(call_.d_query, [&](auto typed) HWY_ATTR {
            for (int64_t query = 0; query < segment_.length; ++query) {
                const int64_t row = query % kTileRows;
                const float* from = d_queries_ + (query - row) * head_panels_ * kTileColumns + row * kTileColumns;
                auto* to = typed.row(segment_.first + query) + head * size_;
                for (int64_t dimension = 0; dimension < size_; dimension += panel_lanes_, from += kTileElements) {
                    for_lanes(std::min(panel_lanes_, size_ - dimension), [&](int64_t i, int64_t left) HWY_ATTR {
                        store(hn::Mul(load(from + i, left), scale), to + dimension + i, left);
                    });
                }
            }
        });
    }

    const AttentionGradCall& call_;
    const Segment& segment_;
    int64_t key_head_;
    int64_t group_;
    int64_t size_;
    int64_t depth_;
    int64_t head_panels_;  // of the head's dimensions as lanes,
    int64_t panel_lanes_;  // each this wide: as even as can be, since narrow tiles are slow
    float scale_;          // of scores in powers of two
    bool dropping_;
    KeepRule keep_;
    uint32_t* query_memory_;
    uint32_t* d_output_memory_;
    uint32_t* query_column_memory_;
    uint32_t* d_output_column_memory_;
    LeftRows query_rows_{};  // rows are queries, the depth is the head
    LeftRows d_output_rows_{};
    LeftRows query_columns_{};  // rows are the head's dimensions, the depth is the queries
    LeftRows d_output_columns_{};
    float* d_queries_;  // tiles: for each panel of queries, its panels of dimensions
    float* d_keys_;     // turned: for each block, dimensions by keys
    float* d_values_;
    uint32_t* key_lanes_;  // right panels: lanes are keys, the depth is the head
    uint32_t* value_lanes_;
    uint32_t* key_columns_;  // right panels: lanes are the head's dimensions, the depth is the keys
    float* straight_;
    float* log_sums_;
    float* means_;
    HWY_ALIGN uint32_t
        probabilities_[kStretchWords * kTileColumns];  // right panels: lanes are keys, the depth is queries
    HWY_ALIGN uint32_t d_scores_[kStretchWords * kTileColumns];
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
