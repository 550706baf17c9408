#include "accrue/data/tokenizers/bpe_merges.h"

#include <algorithm>
#include <array>
#include <functional>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// Up to here looking at all pairs for the best one is faster than a queue.
constexpr size_t kShort = 48;
constexpr int32_t kNoRank = INT32_MAX;
constexpr uint32_t kNone = UINT32_MAX;
constexpr MergeTable::Merge kNoMerge = {kNoRank, -1};

// For each token the symbols that it can begin or end with.
using Ends = std::vector<std::vector<int32_t>>;

bool add_all(std::vector<int32_t>& into, const std::vector<int32_t>& from) {
    bool changed = false;
    for (const int32_t symbol : from) {
        if (std::find(into.begin(), into.end(), symbol) == into.end()) {
            into.push_back(symbol);
            changed = true;
        }
    }
    return changed;
}

// Rules mostly stand behind those that make their parts, so one round and one more to see that nothing changes.
void spread(std::span<const MergeRule> rules, Ends& first, Ends& last) {
    for (bool changed = true; changed;) {
        changed = false;
        for (const MergeRule& rule : rules) {
            const auto result = static_cast<size_t>(rule.result);
            changed |= add_all(first[result], first[static_cast<size_t>(rule.left)]);
            changed |= add_all(last[result], last[static_cast<size_t>(rule.right)]);
        }
    }
}

int32_t largest_id(std::span<const MergeRule> rules, std::span<const int32_t> symbols) {
    int32_t largest = -1;
    for (const MergeRule& rule : rules) {
        largest = std::max({largest, rule.left, rule.right, rule.result});
    }
    for (const int32_t symbol : symbols) {
        largest = std::max(largest, symbol);
    }
    return largest;
}

}  // namespace

MergeTable::MergeTable(std::span<const MergeRule> rules, std::span<const int32_t> symbols) {
    const size_t tokens = static_cast<size_t>(largest_id(rules, symbols)) + 1;
    Ends first(tokens);
    Ends last(tokens);
    for (const int32_t symbol : symbols) {
        first[static_cast<size_t>(symbol)] = {symbol};
        last[static_cast<size_t>(symbol)] = {symbol};
    }
    spread(rules, first, last);
    for (const MergeRule& rule : rules) {
        merges_.set(rule.left, rule.right, {rule.rank, rule.result});
        for (const int32_t left : last[static_cast<size_t>(rule.left)]) {
            for (const int32_t right : first[static_cast<size_t>(rule.right)]) {
                joins_.set(left, right, {});
            }
        }
    }
}

void Merger::merge(std::vector<int32_t>& ids, size_t first) {
    size_t written = first;
    for (size_t begin = first; begin < ids.size();) {
        size_t end = begin + 1;
        while (end < ids.size() && table_.may_join(ids[end - 1], ids[end])) {
            ++end;
        }
        const std::span<int32_t> run(ids.data() + begin, end - begin);
        const size_t length = run.size() <= kShort ? merge_short(run) : merge_long(run);
        std::copy_n(run.begin(), length, ids.begin() + static_cast<std::ptrdiff_t>(written));
        written += length;
        begin = end;
    }
    ids.resize(written);
}

size_t Merger::merge_short(std::span<int32_t> symbols) const {
    const auto fit = [&](size_t place) {
        const MergeTable::Merge* found = table_.find(symbols[place], symbols[place + 1]);
        return found == nullptr ? kNoMerge : *found;
    };
    std::array<MergeTable::Merge, kShort> fits{};
    size_t length = symbols.size();
    for (size_t place = 0; place + 1 < length; ++place) {
        fits[place] = fit(place);
    }
    while (length > 1) {
        size_t best = 0;
        for (size_t place = 1; place + 1 < length; ++place) {
            best = fits[place].rank < fits[best].rank ? place : best;
        }
        if (fits[best].rank == kNoRank) {
            break;
        }
        symbols[best] = fits[best].result;
        std::copy(symbols.begin() + best + 2, symbols.begin() + length, symbols.begin() + best + 1);
        std::copy(fits.begin() + best + 1, fits.begin() + length - 1, fits.begin() + best);
        --length;
        if (best > 0) {
            fits[best - 1] = fit(best - 1);
        }
        if (best + 1 < length) {
            fits[best] = fit(best);
        }
    }
    return length;
}

void Merger::look_at(size_t place, std::span<const int32_t> symbols) {
    const uint32_t next = next_[place];
    const MergeTable::Merge* found = next == kNone ? nullptr : table_.find(symbols[place], symbols[next]);
    fits_[place] = found == nullptr ? kNoMerge : *found;
}

size_t Merger::merge_long(std::span<int32_t> symbols) {
    const size_t count = symbols.size();
    if (count >= kNone) {
        throw Error(
            cat("a word of ", count, " symbols is too long to encode: cut the text into documents below 4 GiB"));
    }
    const auto entry = [&](size_t place) { return static_cast<uint64_t>(fits_[place].rank) << 32 | place; };
    next_.resize(count);
    previous_.resize(count);
    fits_.resize(count);
    queue_.clear();
    for (size_t place = 0; place < count; ++place) {
        next_[place] = place + 1 < count ? static_cast<uint32_t>(place + 1) : kNone;
        previous_[place] = place > 0 ? static_cast<uint32_t>(place - 1) : kNone;
        look_at(place, symbols);
        if (fits_[place].rank != kNoRank) {
            queue_.push_back(entry(place));
        }
    }
    std::make_heap(queue_.begin(), queue_.end(), std::greater<>());
    const auto renew = [&](size_t place) {
        look_at(place, symbols);
        if (fits_[place].rank != kNoRank) {
            queue_.push_back(entry(place));
            std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
        }
    };
    while (!queue_.empty()) {
        std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
        const uint64_t top = queue_.back();
        queue_.pop_back();
        const auto place = static_cast<uint32_t>(top);
        // What stands there may have changed since; then it was queued anew.
        if (entry(place) != top) {
            continue;
        }
        const uint32_t gone = next_[place];
        symbols[place] = fits_[place].result;
        fits_[gone] = kNoMerge;
        next_[place] = next_[gone];
        if (next_[place] != kNone) {
            previous_[next_[place]] = place;
        }
        renew(place);
        if (previous_[place] != kNone) {
            renew(previous_[place]);
        }
    }
    size_t length = 0;
    for (uint32_t place = 0; place != kNone; place = next_[place]) {
        symbols[length++] = symbols[place];
    }
    return length;
}

}  // namespace accrue
