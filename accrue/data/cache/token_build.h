#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "accrue/base/pool.h"
#include "accrue/data/cache/token_cache.h"
#include "accrue/data/cache/token_writer.h"

namespace accrue {

// Reads, tokenizes and writes all documents of a source. Documents go through in rounds: while one round is tokenized by
// all threads, the next one is read and the one before is written, so that memory stays the same however many there are.
class TokenBuild {
public:
    TokenBuild(const TokenSource& source, int token_bytes, Pool& pool, TokenWriter& writer);

    void run(const CacheProgressCallback& progress);
    // Damaged lines and rows that count nothing.
    [[nodiscard]] int64_t skipped() const { return skipped_; }
    // Documents with marks of a chat format.
    [[nodiscard]] int64_t conversations() const { return conversations_; }

private:
    // Documents that one thread takes at once.
    struct Batch {
        struct Place {
            uint32_t file;
            int64_t number;
            PiecePlace piece;
        };
        // Documents or pieces of them. Only the first places.size() are in use: the others keep their memory.
        std::vector<Document> documents;
        std::vector<Place> places;
        StoredDocuments stored;
    };
    struct Round {
        std::vector<Batch> batches;
        int64_t bytes_done = 0;
        [[nodiscard]] bool empty() const { return batches.front().places.empty(); }
    };

    void read(Round& round);
    void read(Batch& batch);
    [[nodiscard]] bool read_next(Document& document);
    void tokenize(Batch& batch, TokenizedDocument& tokenized) const;
    void check(const TokenizedDocument& tokenized, const Batch::Place& place) const;
    void write(Round& round);

    const TokenSource& source_;
    int token_bytes_;
    Pool& pool_;
    TokenWriter& writer_;
    std::array<Round, 3> rounds_;
    std::vector<TokenizedDocument> tokenized_;  // per thread
    std::vector<int64_t> file_bytes_;
    std::unique_ptr<DocumentReader> reader_;
    uint32_t file_ = 0;
    int64_t number_ = 0;
    PiecePlace piece_ = PiecePlace::first;
    int64_t bytes_of_file_ = 0;
    int64_t bytes_of_files_before_ = 0;
    int64_t skipped_ = 0;
    int64_t conversations_ = 0;
};

}  // namespace accrue
