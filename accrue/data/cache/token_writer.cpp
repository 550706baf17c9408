#include "accrue/data/cache/token_writer.h"

#include <utility>

#include "accrue/base/random.h"

namespace accrue {

TokenWriter::TokenWriter(std::filesystem::path folder, int token_bytes)
    : folder_(std::move(folder)),
      token_bytes_(token_bytes),
      tokens_(folder_ / "tokens"),
      counted_(folder_ / "counted"),
      documents_(folder_ / "documents") {}

void TokenWriter::add(const StoredDocuments& documents) {
    records_.clear();
    for (const StoredDocuments::Piece& piece : documents.pieces) {
        add_piece(piece.record);
        if (!piece.unfinished) {
            end_document();
        }
    }
    tokens_.write(documents.tokens);
    documents_.write(std::as_bytes(std::span(records_)));
    add_counted(documents.counted);
}

void TokenWriter::add_piece(const DocumentRecord& piece) {
    if (!std::exchange(begun_, true)) {
        document_ = piece;
        return;
    }
    if (piece.largest_token > document_.largest_token) {
        document_.largest_token = piece.largest_token;
        document_.largest_place = document_.token_end + piece.largest_place;
    }
    document_.token_end += piece.token_end;
    document_.counted += piece.counted;
    document_.content_hash = mix(document_.content_hash, piece.content_hash);
    document_.token_hash = mix(document_.token_hash, piece.token_hash);
}

void TokenWriter::end_document() {
    begun_ = false;
    const int64_t tokens = document_.token_end;
    if (tokens == 0) {
        ++empty_documents_;
        return;
    }
    facts_.add(documents_written_++, tokens, document_);
    tokens_written_ += tokens;
    document_.token_end = tokens_written_;
    records_.push_back(document_);
}

void TokenWriter::add_counted(std::span<const uint8_t> counted) {
    words_.clear();
    for (const uint8_t bit : counted) {
        word_ |= uint64_t{bit} << word_bits_;
        if (++word_bits_ == 64) {
            words_.push_back(std::exchange(word_, 0));
            word_bits_ = 0;
        }
    }
    counted_.write(std::as_bytes(std::span(words_)));
}

void TokenWriter::finish(const std::string& key, int64_t skipped, int64_t conversations) {
    if (word_bits_ > 0) {
        counted_.write(std::as_bytes(std::span(&word_, 1)));
    }
    std::vector<uint64_t> sums;
    for (SummedFile* file : {&tokens_, &counted_, &documents_}) {
        const std::vector<uint64_t> more = file->sums();
        sums.insert(sums.end(), more.begin(), more.end());
        file->close_synced();
    }
    OutputFile checksums(folder_ / "checksums");
    checksums.write(std::as_bytes(std::span(sums)));
    checksums.close_synced();
    TokenHeader header{.magic = kTokenMagic,
                       .token_bytes = token_bytes_,
                       .key = {},
                       .skipped = skipped,
                       .conversations = conversations,
                       .facts = facts_.facts()};
    key.copy(header.key.data(), header.key.size());
    header.checksum_of_checksums = hash64_of(std::as_bytes(std::span(sums)), 0);
    header.checksum = checksum_of(header);
    OutputFile file(folder_ / "header");
    file.write(std::as_bytes(std::span(&header, 1)));
    file.close_synced();
    sync_folder(folder_);
}

}  // namespace accrue
