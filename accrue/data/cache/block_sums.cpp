#include "accrue/data/cache/block_sums.h"

#include <algorithm>

#include "accrue/base/hash.h"

namespace accrue {

void BlockSums::add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const auto part = bytes.first(std::min(bytes.size(), kSumBlockBytes - open_.size()));
        open_.insert(open_.end(), part.begin(), part.end());
        bytes = bytes.subspan(part.size());
        if (open_.size() == kSumBlockBytes) {
            whole_.push_back(hash64_of(open_, 0));
            open_.clear();
        }
    }
}

std::vector<uint64_t> BlockSums::sums() const {
    std::vector<uint64_t> all = whole_;
    if (!open_.empty()) {
        all.push_back(hash64_of(open_, 0));
    }
    return all;
}

}  // namespace accrue
