#pragma once

#include <cstdint>
#include <memory>

#include "accrue/data/cache/token_cache.h"
#include "accrue/data/cache/verified_file.h"

namespace accrue {

// Some documents of a cache, in its order, numbered 0..size()-1. Takes no memory per document.
class DocumentSelection {
public:
    [[nodiscard]] static DocumentSelection all_of(std::shared_ptr<const TokenCache> cache);
    struct Split;
    // Each document goes to validation with that probability, decided by a hash of its contents and nothing else: adding
    // or moving files, another tokenizer and a larger fraction leave it where it is, and equal documents stay together.
    // An error if one of the two gets nothing. The list is kept beside the cache.
    [[nodiscard]] static Split split(const std::shared_ptr<const TokenCache>& cache, double validation_fraction);

    [[nodiscard]] const TokenCache& cache() const { return *cache_; }
    [[nodiscard]] const DocumentFacts& facts() const { return facts_; }
    [[nodiscard]] int64_t size() const { return facts_.documents; }
    // Its number in the cache.
    [[nodiscard]] int64_t document(int64_t place) const { return index_ ? entry(place).document : place; }
    // How many tokens stand in the selection before that place; up to size().
    [[nodiscard]] int64_t tokens_before(int64_t place) const;

private:
    struct Entry {
        int64_t document;
        int64_t tokens_before;
    };
    friend class SplitFile;

    [[nodiscard]] const Entry& entry(int64_t place) const {
        return index_->value<Entry>(first_entry_ + static_cast<size_t>(place) * sizeof(Entry));
    }

    std::shared_ptr<const TokenCache> cache_;
    DocumentFacts facts_;
    // None: all documents.
    std::shared_ptr<const VerifiedFile> index_;
    size_t first_entry_ = 0;  // in bytes
};

// Two selections that have no document in common and all of them together.
struct DocumentSelection::Split {
    DocumentSelection train;
    DocumentSelection validation;
};

}  // namespace accrue
