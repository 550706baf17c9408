#include "accrue/data/tokenizers/bpe_merges.h"

#include <gtest/gtest.h>

#include "accrue/base/random.h"

namespace accrue {
namespace {

using Ids = std::vector<int32_t>;

// The definition: of all places where a rule fits, the lowest rank, then the leftmost, until none fits.
Ids merged_by_definition(const MergeTable& table, Ids ids) {
    while (true) {
        const MergeTable::Merge* best = nullptr;
        size_t where = 0;
        for (size_t i = 0; i + 1 < ids.size(); ++i) {
            const MergeTable::Merge* merge = table.find(ids[i], ids[i + 1]);
            if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) {
                best = merge;
                where = i;
            }
        }
        if (best == nullptr) {
            return ids;
        }
        ids[where] = best->result;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(where) + 1);
    }
}

// Rules between random tokens, some of them with the same result or the same rank.
std::vector<MergeRule> random_rules(uint64_t seed, int32_t symbols, int32_t count) {
    std::vector<MergeRule> rules;
    int32_t tokens = symbols;
    for (int32_t rank = 0; rank < count; ++rank) {
        const auto draw = [&](uint64_t what) {
            return static_cast<int32_t>(mix(seed, what, static_cast<uint64_t>(rank)) % static_cast<uint64_t>(tokens));
        };
        rules.push_back({draw(1), draw(2), tokens, rank / (seed % 2 == 0 ? 1 : 3)});
        ++tokens;
    }
    return rules;
}

TEST(BpeMergesTest, AnyTextIsMergedAsDefined) {
    for (uint64_t seed = 0; seed < 400; ++seed) {
        const int32_t symbols = 2 + static_cast<int32_t>(seed % 5);
        const std::vector<MergeRule> rules = random_rules(seed, symbols, 30);
        Ids alphabet;
        for (int32_t symbol = 0; symbol < symbols; ++symbol) {
            alphabet.push_back(symbol);
        }
        const MergeTable table(rules, alphabet);
        Merger merger(table);
        for (const size_t length : {1U, 2U, 7U, 47U, 48U, 49U, 50U, 200U}) {
            Ids ids;
            for (uint64_t i = 0; i < length; ++i) {
                ids.push_back(static_cast<int32_t>(mix(seed, length, i) % static_cast<uint64_t>(symbols)));
            }
            Ids merged = {-7, -8};
            merged.insert(merged.end(), ids.begin(), ids.end());
            merger.merge(merged, 2);
            Ids expected = merged_by_definition(table, ids);
            expected.insert(expected.begin(), {-7, -8});
            ASSERT_EQ(merged, expected) << "seed " << seed << ", length " << length;
        }
    }
}

TEST(BpeMergesTest, SymbolsThatNoRuleJoinsAreCutApart) {
    // 0 1 -> 3, 3 2 -> 4: whatever begins with 2 may follow what ends in 1, and nothing may follow 2.
    const std::vector<MergeRule> rules = {{3, 2, 4, 0}, {0, 1, 3, 1}};
    const MergeTable table(rules, Ids{0, 1, 2});
    EXPECT_TRUE(table.may_join(0, 1));
    EXPECT_TRUE(table.may_join(1, 2));
    EXPECT_FALSE(table.may_join(2, 0));
    EXPECT_FALSE(table.may_join(0, 0));
    EXPECT_FALSE(table.may_join(0, 2));
}

TEST(BpeMergesTest, TheLastRuleOfAPairHolds) {
    const std::vector<MergeRule> rules = {{0, 0, 1, 0}, {0, 0, 2, 1}};
    const MergeTable table(rules, Ids{0});
    Ids ids = {0, 0, 0};
    Merger(table).merge(ids, 0);
    EXPECT_EQ(ids, (Ids{2, 0}));
}

TEST(BpeMergesTest, AMillionEqualSymbolsTakeNoQuadraticTime) {
    std::vector<MergeRule> rules;
    for (int32_t token = 0; token < 10; ++token) {
        rules.push_back({token, token, token + 1, token});
    }
    const MergeTable table(rules, Ids{0});
    Ids ids(1'000'000, 0);
    Merger(table).merge(ids, 0);
    EXPECT_EQ(ids.size(), 1'000'000U / 1024 + 2);  // 576 are left, which are 512 + 64
    EXPECT_EQ(ids.front(), 10);
    EXPECT_EQ(ids.back(), 6);
}

}  // namespace
}  // namespace accrue
