#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "accrue/base/hash.h"

namespace accrue {

// A token cache on disk is a folder of five files, all in the byte order of x86:
//   header     one TokenHeader, written last
//   tokens     the ids of all documents, one after another, 2 or 4 bytes each
//   counted    one bit per token, the lowest bit of a 64-bit word first: does it count as a target?
//   documents  one DocumentRecord each
//   checksums  one of 64 bits per block (block_sums.h) of tokens, then of counted, then of documents
// and one file split-... per fraction that was asked for (document_selection.cpp).

// 2: later pieces of a document are encoded without a prefix. 3: checksums, and conversations are counted.
inline constexpr int32_t kTokenFormatVersion = 3;

// What is kept of each document besides its tokens.
struct DocumentRecord {
    int64_t token_end = 0;
    int64_t counted = 0;
    // Of the document as it was read: does not depend on the tokenizer.
    uint64_t content_hash = 0;
    uint64_t token_hash = 0;
    int32_t largest_token = -1;
    uint32_t file = 0;
    // Where the largest token first stands in the document.
    int64_t largest_place = 0;
};

// What must be known of all documents together, so that nobody has to go through them again.
struct DocumentFacts {
    int64_t documents = 0;
    int64_t tokens = 0;
    int64_t counted = 0;
    // In tokens.
    int64_t longest_document = 0;
    int64_t largest_token = -1;
    // The first document that has the largest token, and the place in it.
    int64_t largest_document = 0;
    int64_t largest_place = 0;
    // Of all token hashes, in order.
    std::array<char, 32> digest{};
};

// The first file that is read, and the last one that is written.
struct TokenHeader {
    std::array<char, 16> magic{};
    int32_t version = kTokenFormatVersion;
    int32_t token_bytes = 0;
    std::array<char, 32> key{};
    int64_t skipped = 0;
    // Documents with marks of a chat format.
    int64_t conversations = 0;
    DocumentFacts facts;
    // Of the file checksums.
    uint64_t checksum_of_checksums = 0;
    uint64_t checksum = 0;

    // How long the files are.
    [[nodiscard]] size_t tokens_bytes() const { return static_cast<size_t>(facts.tokens * token_bytes); }
    [[nodiscard]] size_t counted_bytes() const { return static_cast<size_t>((facts.tokens + 63) / 64 * 8); }
    [[nodiscard]] size_t documents_bytes() const {
        return static_cast<size_t>(facts.documents) * sizeof(DocumentRecord);
    }
};

static_assert(std::has_unique_object_representations_v<TokenHeader>, "padding would be written to the disk");
static_assert(std::has_unique_object_representations_v<DocumentRecord>, "padding would be written to the disk");

// Collects the facts of documents given in order.
class FactsCollector {
public:
    // `document` is its number in the cache, `tokens` how many it has.
    void add(int64_t document, int64_t tokens, const DocumentRecord& record) {
        ++facts_.documents;
        facts_.tokens += tokens;
        facts_.counted += record.counted;
        facts_.longest_document = tokens > facts_.longest_document ? tokens : facts_.longest_document;
        if (record.largest_token > facts_.largest_token) {
            facts_.largest_token = record.largest_token;
            facts_.largest_document = document;
            facts_.largest_place = record.largest_place;
        }
        hasher_.add(std::as_bytes(std::span(&record.token_hash, 1)));
    }

    [[nodiscard]] DocumentFacts facts() const {
        DocumentFacts result = facts_;
        hasher_.digest().copy(result.digest.data(), result.digest.size());
        return result;
    }

private:
    DocumentFacts facts_;
    Hasher hasher_;
};

// The checksum of a header whose last member is the checksum.
template <class Header>
[[nodiscard]] uint64_t checksum_of(const Header& header) {
    return hash64_of(std::as_bytes(std::span(&header, 1)).first(sizeof(Header) - sizeof(header.checksum)), 0);
}

}  // namespace accrue
