#include "accrue/data/cache/verified_file.h"

#include <algorithm>
#include <utility>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"

namespace accrue {

VerifiedFile::VerifiedFile(const std::filesystem::path& path, size_t bytes, std::vector<uint64_t> sums)
    : path_(path), size_(bytes), sums_(std::move(sums)), verified_(sums_.size()), file_(path) {
    if (file_.bytes().size() < size_ || sums_.size() != blocks_of(size_)) {
        throw Error(cat("the cache ", path_.parent_path().string(), " is damaged: its file ", path_.filename().string(),
                        " has ", file_.bytes().size(), " bytes instead of ", size_,
                        ". Remove that folder, and it is made anew."));
    }
}

void VerifiedFile::verify_block(size_t block) const {
    const size_t begin = block * kSumBlockBytes;
    const auto bytes = file_.bytes().subspan(begin, std::min(kSumBlockBytes, size_ - begin));
    if (hash64_of(bytes, 0) != sums_[block]) {
        throw Error(cat("the cache ", path_.parent_path().string(), " is damaged: its file ", path_.filename().string(),
                        " does not match its checksum in the bytes from ", begin, " to ", begin + bytes.size(),
                        ". Remove that folder, and it is made anew."));
    }
    verified_[block].store(true, std::memory_order_relaxed);
    file_.note_read(bytes.size());
}

}  // namespace accrue
