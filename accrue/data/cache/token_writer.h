#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "accrue/base/file.h"
#include "accrue/data/cache/block_sums.h"
#include "accrue/data/cache/token_format.h"

namespace accrue {

inline constexpr std::array<char, 16> kTokenMagic = {'a', 'c', 'c', 'r', 'u', 'e', ' ', 't', 'o', 'k', 'e', 'n', 's'};

// Some documents as they will be stored, or pieces of them.
struct StoredDocuments {
    struct Piece {
        // token_end is how many tokens the piece has.
        DocumentRecord record;
        // The next piece goes on with the same document.
        bool unfinished = false;
    };

    std::vector<std::byte> tokens;
    // A byte per token, 0 or 1.
    std::vector<uint8_t> counted;
    std::vector<Piece> pieces;

    void clear() {
        tokens.clear();
        counted.clear();
        pieces.clear();
    }
};

// A file being written, with the checksums of its blocks.
class SummedFile {
public:
    explicit SummedFile(const std::filesystem::path& path) : file_(path) {}

    void write(std::span<const std::byte> bytes) {
        file_.write(bytes);
        sums_.add(bytes);
    }
    // Of all that was written.
    [[nodiscard]] std::vector<uint64_t> sums() const { return sums_.sums(); }
    void close_synced() { file_.close_synced(); }

private:
    OutputFile file_;
    BlockSums sums_;
};

// Writes the files of a token cache into a folder that is there.
class TokenWriter {
public:
    TokenWriter(std::filesystem::path folder, int token_bytes);

    void add(const StoredDocuments& documents);
    [[nodiscard]] int64_t documents() const { return documents_written_; }
    // Documents without a token, which are left out.
    [[nodiscard]] int64_t empty_documents() const { return empty_documents_; }
    // Syncs everything and writes the header.
    void finish(const std::string& key, int64_t skipped, int64_t conversations);

private:
    void add_piece(const DocumentRecord& piece);
    void end_document();
    void add_counted(std::span<const uint8_t> counted);

    std::filesystem::path folder_;
    int token_bytes_;
    SummedFile tokens_;
    SummedFile counted_;
    SummedFile documents_;
    int64_t tokens_written_ = 0;
    int64_t documents_written_ = 0;
    int64_t empty_documents_ = 0;
    FactsCollector facts_;
    // The document so far; token_end is how many tokens it has.
    DocumentRecord document_;
    bool begun_ = false;
    std::vector<DocumentRecord> records_;
    // Bits that do not fill a word yet.
    uint64_t word_ = 0;
    int word_bits_ = 0;
    std::vector<uint64_t> words_;
};

}  // namespace accrue
