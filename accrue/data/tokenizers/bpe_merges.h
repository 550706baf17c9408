#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "accrue/data/tokenizers/pair_map.h"

namespace accrue {

// Two neighbours that become one token. Of all that can happen in a text the lowest rank happens first, and of equal
// ranks the leftmost.
struct MergeRule {
    int32_t left;
    int32_t right;
    int32_t result;
    int32_t rank;
};

// The rules of byte-pair encoding, ready to be asked.
class MergeTable {
public:
    struct Merge {
        int32_t rank;
        int32_t result;
    };

    MergeTable() = default;
    // `symbols` are the ids that a text may begin as, before any rule was applied. Where a pair has several rules, the
    // last one holds.
    MergeTable(std::span<const MergeRule> rules, std::span<const int32_t> symbols);

    [[nodiscard]] const Merge* find(int32_t left, int32_t right) const { return merges_.find(left, right); }
    // Can any rule ever join what ends in one symbol with what begins with the other? If not, a text can be cut between
    // them without changing its tokens, which keeps the pieces short.
    [[nodiscard]] bool may_join(int32_t left_symbol, int32_t right_symbol) const {
        return joins_.find(left_symbol, right_symbol) != nullptr;
    }

private:
    struct Nothing {};

    PairMap<Merge> merges_;
    PairMap<Nothing> joins_;
};

// Applies the rules; keeps its memory from call to call. For one thread at a time.
class Merger {
public:
    explicit Merger(const MergeTable& table) : table_(table) {}
    // Applies the rules to ids[first..] until none fits. Takes O(n log n) for n symbols, whatever they are.
    void merge(std::vector<int32_t>& ids, size_t first);

private:
    // Both leave the result at the front of the symbols and return its length.
    [[nodiscard]] size_t merge_short(std::span<int32_t> symbols) const;
    [[nodiscard]] size_t merge_long(std::span<int32_t> symbols);
    void look_at(size_t place, std::span<const int32_t> symbols);

    const MergeTable& table_;
    // For long runs: neighbours, the rule that fits at each place, and the queue of rank and place.
    std::vector<uint32_t> next_;
    std::vector<uint32_t> previous_;
    std::vector<MergeTable::Merge> fits_;
    std::vector<uint64_t> queue_;
};

}  // namespace accrue
