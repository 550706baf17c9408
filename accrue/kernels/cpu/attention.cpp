#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/attention.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "accrue/kernels/cpu/attention-inl.h"
#include "accrue/kernels/cpu/attention_items.h"
#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/elementwise_plan.h"
#include "accrue/kernels/cpu/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// What a forward call is about.
struct AttentionCall {
    const AttentionShape& shape;
    AnyConstView query;
    AnyConstView key;
    AnyConstView value;
    AnyView output;
    View<float> log_sum;
};

// One thread's work on one item. Scores are computed turned around: a row is a key, a lane is one of the block's queries.
// So a softmax is vertical, with one fixed order per query; the probabilities come out as the panel that the next product
// reads; and no query sees another.
template <Packing packing>
class HeadForward {
public:
    HeadForward(const AttentionCall& call, const AttentionItem& item, float* memory)
        : call_(call),
          item_(item),
          size_(call.shape.head_size),
          depth_(words_of(size_, packing)),
          scale_(static_cast<float>(call.shape.scale / kLogOfTwo)),
          dropping_(call.shape.dropout.probability > 0),
          dropout_(call.shape.dropout, item.head) {
        const AttentionExtents extents(item.segment.length, size_);
        Scratch scratch(memory);
        key_memory_ = scratch.words(extents.keys * extents.head);
        value_memory_ = scratch.words(extents.columns * extents.head);
        scores_ = scratch.floats(extents.keys * kTileColumns);
        query_lanes_ = scratch.words(extents.head * kTileColumns);
        turned_ = scratch.floats(extents.head * kTileColumns);
        straight_ = scratch.floats(extents.head * kTileColumns);
    }

    void run() {
        const int64_t keys = std::min(item_.end_query, item_.segment.length);
        const int64_t key_head = item_.head / (call_.shape.query_heads / call_.shape.key_heads);
        key_rows_ =
            rows_of(operand_of(call_.key, item_.segment, key_head, size_, Contiguous::depth),
                    {.first_lane = 0, .lanes = keys, .first_depth = 0, .depth = size_}, packing, depth_, key_memory_);
        value_columns_ = rows_of(operand_of(call_.value, item_.segment, key_head, size_, Contiguous::lanes),
                                 {.first_lane = 0, .lanes = size_, .first_depth = 0, .depth = keys}, packing,
                                 attention_row_words(words_of(keys, packing)), value_memory_);
        for (int64_t first = item_.first_query; first < item_.end_query; first += kTileColumns) {
            const QueryBlock block(first, item_.segment.length);
            compute_scores(block);
            if (dropping_) {
                dropout_.start_block(call_.shape.dropout, item_.segment.first, block);
            }
            std::fill_n(sums_, kTileColumns, 0.0F);
            for (int64_t start = 0; start < block.keys; start += kStretch) {
                add_stretch(block, start, std::min(block.keys, start + kStretch));
            }
            write_output(block);
        }
    }

private:
    // Keys whose probabilities stay in the first-level cache until the values of all dimensions are multiplied by them.
    // A query's sum is taken over stretches first, which keeps it accurate for long segments.
    static constexpr int64_t kStretch = 64 * kPerWord<packing>;

    // scores_[key][query] = key . query, and the largest of each query, scaled.
    void compute_scores(const QueryBlock& block) {
        pack_panel(operand_of(call_.query, item_.segment, item_.head, size_, Contiguous::depth),
                   {.first_lane = block.first, .lanes = block.count, .first_depth = 0, .depth = size_}, {0, depth_},
                   packing, block.width, query_lanes_);
        const SoonRows next = soon_rows_of(operand_of(call_.query, item_.segment, item_.head, size_, Contiguous::depth),
                                           block.first + kTileColumns,
                                           std::min(kTileColumns, item_.end_query - block.first - kTileColumns), size_);
        std::fill_n(largest_, kTileColumns, -std::numeric_limits<float>::infinity());
        for (int64_t key = 0; key < block.keys; key += kTileRows) {
            float* tile = scores_ + key * kTileColumns;
            next.ask_for(key / kTileRows);
            multiply_tile(key_rows_.from(key), query_lanes_, block.width, depth_, packing, Chain::start, tile);
            raise_largest(block, key, std::min(block.keys, key + kTileRows), tile);
        }
    }

    void raise_largest(const QueryBlock& block, int64_t key, int64_t end, const float* tile) {
        const Floats d;
        const auto scale = hn::Set(d, scale_);
        for (int64_t lane = 0; lane < block.width; lane += kLanes) {
            FloatVector largest = hn::Load(d, largest_ + lane);
            for (int64_t k = key; k < end; ++k) {
                const auto score = hn::Mul(scale, hn::Load(d, tile + (k - key) * kTileColumns + lane));
                const auto higher = hn::Max(score, largest);
                largest = k <= block.first ? higher : hn::IfThenElse(seen_by(k, block.first + lane), higher, largest);
            }
            hn::Store(largest, d, largest_ + lane);
        }
    }

    // e^(score - largest) of a key for the queries from `lane` on, 0 where unseen.
    HWY_INLINE FloatVector exponential_of(const QueryBlock& block, int64_t key, int64_t lane,
                                          FloatVector largest) const {
        const Floats d;
        const auto score = hn::Load(d, scores_ + key * kTileColumns + lane);
        const auto e = power_of_two_below_zero(hn::MulSub(score, hn::Set(d, scale_), largest));
        return key > block.first ? hn::IfThenElseZero(seen_by(key, block.first + lane), e) : e;
    }

    HWY_INLINE FloatVector after_dropout(FloatVector e, int64_t key, int64_t lane) const {
        return dropping_ ? dropout_.apply(e, key, lane) : e;
    }

    // Turns the scores of some keys into the right panel of the product with the values; returns the queries' sums.
    HWY_INLINE FloatVector compute_probabilities(const QueryBlock& block, int64_t start, int64_t end, int64_t lane) {
        const Floats d;
        const auto largest = hn::Load(d, largest_ + lane);
        auto sum = hn::Zero(d);
        uint32_t* out = probabilities_ + lane;
        for (int64_t key = start; key < end; key += kPerWord<packing>, out += block.width) {
            const auto e = exponential_of(block, key, lane, largest);
            sum = hn::Add(sum, e);
            auto word = hn::BitCast(Words(), after_dropout(e, key, lane));
            if constexpr (packing == Packing::pairs) {
                const auto next = key + 1 < end ? exponential_of(block, key + 1, lane, largest) : hn::Zero(d);
                sum = hn::Add(sum, next);
                word = paired_words(after_dropout(e, key, lane), after_dropout(next, key + 1, lane));
            }
            hn::Store(word, Words(), out);
        }
        return sum;
    }

    // turned_[dimension][query] += the part of keys start .. end - 1
    void add_stretch(const QueryBlock& block, int64_t start, int64_t end) {
        const Floats d;
        for (int64_t lane = 0; lane < block.width; lane += kLanes) {
            const auto sum = compute_probabilities(block, start, end, lane);
            hn::Store(hn::Add(hn::Load(d, sums_ + lane), sum), d, sums_ + lane);
        }
        for (int64_t dimension = 0; dimension < size_; dimension += kTileRows) {
            multiply_tile(value_columns_.from(dimension, start / kPerWord<packing>), probabilities_, block.width,
                          words_of(end - start, packing), packing, start == 0 ? Chain::start : Chain::go_on,
                          turned_ + dimension * kTileColumns);
        }
    }

    void write_output(const QueryBlock& block) {
        const Floats d;
        for (int64_t lane = 0; lane < block.width; lane += kLanes) {
            const auto inverse = hn::Div(hn::Set(d, 1), hn::Load(d, sums_ + lane));
            for (int64_t dimension = 0; dimension < size_; ++dimension) {
                float* values = turned_ + dimension * kTileColumns + lane;
                hn::Store(hn::Mul(hn::Load(d, values), inverse), d, values);
            }
        }
        const int64_t first_row = item_.segment.first + block.first;
        with_type(call_.output, [&](auto typed) HWY_ATTR {
            write_turned(turned_, straight_, block.count, size_,
                         typed.slice_rows(first_row, block.count).slice_columns(item_.head * size_, size_));
        });
        for (int64_t q = 0; q < block.count; ++q) {
            const double log_sum = largest_[q] * kLogOfTwo + std::log(static_cast<double>(sums_[q]));
            call_.log_sum.row(first_row + q)[item_.head] = static_cast<float>(log_sum);
        }
    }

    const AttentionCall& call_;
    const AttentionItem& item_;
    int64_t size_;
    int64_t depth_;
    float scale_;  // of scores in powers of two
    bool dropping_;
    BlockDropout dropout_;
    uint32_t* key_memory_;
    uint32_t* value_memory_;
    LeftRows key_rows_{};       // rows are keys, the depth is the head
    LeftRows value_columns_{};  // rows are the head's dimensions, the depth is the keys
    float* scores_;
    uint32_t* query_lanes_;
    float* turned_;
    float* straight_;
    HWY_ALIGN float largest_[kTileColumns];
    HWY_ALIGN float sums_[kTileColumns];
    HWY_ALIGN uint32_t probabilities_[kStretch / kPerWord<packing> * kTileColumns];
};

void attention(const Context& context, const AttentionShape& shape, std::span<const Segment> segments,
               AnyConstView query, AnyConstView key, AnyConstView value, AnyView output, View<float> log_sum) {
    const int threads = context.pool.threads();
    const int64_t longest = longest_of(segments);
    const Arena::Block scratch = context.arena.take(attention_workspace_bytes(longest, shape.head_size, threads));
    auto* memory = reinterpret_cast<float*>(scratch.data());
    const AttentionCall call{
        .shape = shape, .query = query, .key = key, .value = value, .output = output, .log_sum = log_sum};
    const Packing packing = packing_of({query, key, value}, context.set);
    const auto items = attention_items(segments, shape.query_heads, threads);
    context.pool.run(static_cast<int64_t>(items.size()), [&](int64_t i, int thread) HWY_ATTR {
        float* own = memory + thread * attention_thread_floats(longest, shape.head_size);
        const AttentionItem& item = items[static_cast<size_t>(i)];
        if (packing == Packing::pairs) {
            HeadForward<Packing::pairs>(call, item, own).run();
        } else {
            HeadForward<Packing::floats>(call, item, own).run();
        }
    });
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::cpu {

void attention(const Context& context, const AttentionShape& shape, std::span<const Segment> segments,
               AnyConstView query, AnyConstView key, AnyConstView value, AnyView output, View<float> log_sum) {
    pick(context.set, N_SCALAR::attention, N_AVX2::attention, N_AVX3::attention)(context, shape, segments, query, key,
                                                                                 value, output, log_sum);
}

}  // namespace accrue::cpu
#endif
