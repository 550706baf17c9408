#include "accrue/data/cache/token_build.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "accrue/base/error.h"
#include "accrue/base/random.h"
#include "accrue/data/cache/file_contents.h"

namespace accrue {
namespace {

constexpr int64_t kBatchBytes = int64_t{1} << 17;
constexpr size_t kBatchDocuments = 1024;
constexpr size_t kBatchesPerThread = 2;

int64_t bytes_of(const Document& document) {
    int64_t bytes = 0;
    for (const DocumentPart& part : document.parts) {
        bytes += static_cast<int64_t>(part.text.size() + part.ids.size() * sizeof(int32_t));
    }
    return bytes;
}

bool is_conversation(const Document& document) {
    return std::any_of(document.parts.begin(), document.parts.end(),
                       [](const DocumentPart& part) { return part.has_markup; });
}

uint64_t content_hash(const Document& document) {
    uint64_t hash = 0;
    for (const DocumentPart& part : document.parts) {
        hash = hash64_of(std::as_bytes(std::span(part.text)), hash);
        hash = hash64_of(std::as_bytes(std::span(part.ids)), hash);
        hash = mix(hash, (part.counted ? 1U : 0U) + (part.has_markup ? 2U : 0U));
    }
    return hash;
}

template <class T>
void append_ids(const std::vector<int32_t>& ids, std::vector<std::byte>& bytes) {
    const size_t old_size = bytes.size();
    bytes.resize(old_size + ids.size() * sizeof(T));
    for (size_t i = 0; i < ids.size(); ++i) {
        const auto id = static_cast<T>(ids[i]);
        std::memcpy(bytes.data() + old_size + i * sizeof(T), &id, sizeof(T));
    }
}

}  // namespace

TokenBuild::TokenBuild(const TokenSource& source, int token_bytes, Pool& pool, TokenWriter& writer)
    : source_(source),
      token_bytes_(token_bytes),
      pool_(pool),
      writer_(writer),
      tokenized_(static_cast<size_t>(pool.threads())) {
    for (Round& round : rounds_) {
        round.batches.resize(static_cast<size_t>(pool.threads()) * kBatchesPerThread);
    }
    for (const std::filesystem::path& file : source.files) {
        file_bytes_.push_back(state_of(file).size);
    }
}

void TokenBuild::run(const CacheProgressCallback& progress) {
    const int64_t bytes_total = std::accumulate(file_bytes_.begin(), file_bytes_.end(), int64_t{0});
    read(rounds_[0]);
    for (size_t turn = 0; !rounds_[turn % 3].empty() || !rounds_[(turn + 2) % 3].empty(); ++turn) {
        Round& current = rounds_[turn % 3];
        Round& next = rounds_[(turn + 1) % 3];
        Round& previous = rounds_[(turn + 2) % 3];
        const auto batches = static_cast<int64_t>(current.batches.size());
        pool_.run(2 + batches, [&](int64_t item, int thread) {
            if (item == 0) {
                read(next);
            } else if (item == 1) {
                write(previous);
            } else {
                tokenize(current.batches[static_cast<size_t>(item - 2)], tokenized_[static_cast<size_t>(thread)]);
            }
        });
        if (progress) {
            progress({CacheProgress::Stage::tokenizing, current.bytes_done, bytes_total});
        }
    }
}

void TokenBuild::read(Round& round) {
    for (Batch& batch : round.batches) {
        read(batch);
    }
    round.bytes_done = bytes_of_files_before_ + bytes_of_file_;
}

void TokenBuild::read(Batch& batch) {
    batch.places.clear();
    int64_t bytes = 0;
    while (bytes < kBatchBytes && batch.places.size() < kBatchDocuments) {
        if (batch.documents.size() == batch.places.size()) {
            batch.documents.emplace_back();
        }
        Document& document = batch.documents[batch.places.size()];
        if (!read_next(document)) {
            return;
        }
        const int64_t document_bytes = bytes_of(document);
        bytes += document_bytes;
        // Only an estimate, because files may be compressed or full of marks.
        bytes_of_file_ = std::min(file_bytes_[file_], bytes_of_file_ + document_bytes);
        batch.places.push_back({file_, number_, piece_});
        number_ += document.unfinished ? 0 : 1;
        piece_ = document.unfinished ? PiecePlace::later : PiecePlace::first;
    }
}

bool TokenBuild::read_next(Document& document) {
    while (file_ < source_.files.size()) {
        if (!reader_) {
            reader_ = source_.open(source_.files[file_]);
        }
        document.parts.clear();
        document.unfinished = false;
        if (reader_->next(document)) {
            conversations_ += is_conversation(document) ? 1 : 0;
            return true;
        }
        skipped_ += reader_->skipped();
        reader_.reset();
        bytes_of_files_before_ += file_bytes_[file_];
        bytes_of_file_ = 0;
        number_ = 0;
        piece_ = PiecePlace::first;
        ++file_;
    }
    return false;
}

void TokenBuild::tokenize(Batch& batch, TokenizedDocument& tokenized) const {
    StoredDocuments& stored = batch.stored;
    stored.clear();
    for (size_t i = 0; i < batch.places.size(); ++i) {
        source_.tokenize(batch.documents[i], batch.places[i].piece, tokenized);
        check(tokenized, batch.places[i]);
        if (token_bytes_ == 2) {
            append_ids<uint16_t>(tokenized.ids, stored.tokens);
        } else {
            append_ids<int32_t>(tokenized.ids, stored.tokens);
        }
        int64_t counted = 0;
        for (uint8_t& flag : tokenized.counted) {
            flag = flag != 0 ? 1 : 0;
            counted += flag;
        }
        stored.counted.insert(stored.counted.end(), tokenized.counted.begin(), tokenized.counted.end());
        const auto largest = std::max_element(tokenized.ids.begin(), tokenized.ids.end());
        const DocumentRecord record{.token_end = static_cast<int64_t>(tokenized.ids.size()),
                                    .counted = counted,
                                    .content_hash = content_hash(batch.documents[i]),
                                    .token_hash = hash64_of(std::as_bytes(std::span(tokenized.ids)),
                                                            hash64_of(std::as_bytes(std::span(tokenized.counted)), 0)),
                                    .largest_token = largest == tokenized.ids.end() ? -1 : *largest,
                                    .file = batch.places[i].file,
                                    .largest_place = largest - tokenized.ids.begin()};
        stored.pieces.push_back({record, batch.documents[i].unfinished});
    }
}

void TokenBuild::check(const TokenizedDocument& tokenized, const Batch::Place& place) const {
    const int32_t limit =
        token_bytes_ == 2 ? std::numeric_limits<uint16_t>::max() : std::numeric_limits<int32_t>::max();
    for (const int32_t id : tokenized.ids) {
        if (id < 0 || id > limit) {
            throw Error(cat(source_.files[place.file].string(), ", document ", place.number, " has the token ", id,
                            ", but the vocabulary has only ", source_.vocabulary,
                            ". Name the tokenizer or the model that these tokens were made for."));
        }
    }
}

void TokenBuild::write(Round& round) {
    for (Batch& batch : round.batches) {
        if (batch.places.empty()) {
            break;
        }
        writer_.add(batch.stored);
        batch.places.clear();
    }
}

}  // namespace accrue
