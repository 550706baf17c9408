#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/data/documents/document_readers.h"

namespace accrue {
namespace {

static_assert(std::endian::native == std::endian::little, ".bin files are little-endian and read as they are");

constexpr size_t kPieceIds = size_t{1} << 20;
constexpr size_t kHeaderBytes = 256 * sizeof(int32_t);

// llm.c's two kinds of file: dev/data/data_common.py, write_datafile().
struct HeaderKind {
    int32_t magic;
    int32_t version;
    size_t id_bytes;
};
constexpr std::array<HeaderKind, 2> kHeaderKinds = {{{20240520, 1, sizeof(uint16_t)}, {20240801, 7, sizeof(uint32_t)}}};

// The kind that the first bytes of a file name. Without a header they would be the id 55,432 or 55,713 and the id 308,
// and GPT-2's vocabulary, which files without a header hold, ends at 50,256.
const HeaderKind* kind_of_header(std::span<const char> bytes) {
    int32_t magic = 0;
    if (bytes.size() < sizeof magic) {
        return nullptr;
    }
    std::memcpy(&magic, bytes.data(), sizeof magic);
    const auto* const found = std::find_if(kHeaderKinds.begin(), kHeaderKinds.end(),
                                           [&](const HeaderKind& kind) { return kind.magic == magic; });
    return found == kHeaderKinds.end() ? nullptr : found;
}

// Is every second number 0? Then these are ids of 32 bits, which as ids of 16 bits would train a model on nonsense.
bool looks_like_wide_ids(std::span<const char> bytes) {
    constexpr size_t kFewest = 128;
    if (bytes.size() < kFewest) {
        return false;
    }
    for (size_t place = 0; place + 4 <= bytes.size(); place += 4) {
        if (bytes[place + 2] != 0 || bytes[place + 3] != 0) {
            return false;
        }
    }
    return true;
}

// A file of token ids as one document, handed out in pieces.
class BinReader final : public DocumentReader {
public:
    explicit BinReader(std::unique_ptr<InputStream> stream) : stream_(std::move(stream)) {
        read_up_to(kHeaderBytes);
        if (const HeaderKind* const kind = kind_of_header(buffer_)) {
            read_header(*kind);
        } else if (without_compression(stream_->name()).string().ends_with(".u32.bin")) {
            id_bytes_ = sizeof(uint32_t);
        } else if (looks_like_wide_ids(buffer_)) {
            throw Error(cat(stream_->name(),
                            " has no header and is read as uint16 ids, but every second one is 0, as in uint32 ids. If "
                            "they are, let its name end in .u32.bin."));
        }
    }

    bool next(Document& document) override {
        if (finished_) {
            return false;
        }
        // One id more than a piece tells whether another piece follows.
        read_up_to((kPieceIds + 1) * id_bytes_);
        const size_t bytes = std::min(buffer_.size(), kPieceIds * id_bytes_);
        finished_ = bytes == buffer_.size();
        check_piece(bytes);
        document = {.parts = {{.text = {}, .ids = take_ids(bytes)}}, .unfinished = !finished_};
        return true;
    }

private:
    // Asks for no more memory than the file can fill.
    void read_up_to(size_t most) {
        const size_t size = std::min<size_t>(most, stream_->size().value_or(std::numeric_limits<int64_t>::max()));
        const size_t kept = buffer_.size();
        buffer_.resize(size);
        buffer_.resize(kept + stream_->read(std::span(buffer_).subspan(kept)));
    }

    void read_header(const HeaderKind& kind) {
        if (buffer_.size() < kHeaderBytes) {
            throw Error(cat(stream_->name(), " has ", buffer_.size(), " bytes, but its header alone has ", kHeaderBytes,
                            ": it was cut short"));
        }
        std::array<int32_t, 3> header{};
        std::memcpy(header.data(), buffer_.data(), sizeof header);
        if (header[1] != kind.version) {
            throw Error(cat(stream_->name(), " has the version ", header[1], " in its header; with the magic number ",
                            kind.magic, " only version ", kind.version, " is known"));
        }
        id_bytes_ = kind.id_bytes;
        promised_ = header[2];
        buffer_.clear();
        if (stream_->size()) {
            check_count((*stream_->size() - static_cast<int64_t>(kHeaderBytes)) / static_cast<int64_t>(id_bytes_));
        }
    }

    void check_count(int64_t count) const {
        if (promised_ && count != *promised_) {
            throw Error(cat(stream_->name(), " has ", *promised_, " tokens by its header, but ", count,
                            " follow it: it was cut short or is damaged"));
        }
    }

    void check_piece(size_t bytes) const {
        if (finished_ && bytes % id_bytes_ != 0) {
            throw Error(cat(stream_->name(), " does not hold whole uint", 8 * id_bytes_, " ids: ", bytes % id_bytes_,
                            " bytes are left over. It was cut short or is another kind of file."));
        }
        if (finished_) {
            check_count(taken_ + static_cast<int64_t>(bytes / id_bytes_));
        }
        if (bytes == 0) {
            throw Error(cat(stream_->name(), " is empty: it holds no token"));
        }
    }

    std::vector<int32_t> take_ids(size_t bytes) {
        std::vector<int32_t> ids(bytes / id_bytes_);
        for (size_t place = 0; place < ids.size(); ++place) {
            uint32_t id = 0;
            std::memcpy(&id, buffer_.data() + place * id_bytes_, id_bytes_);
            if (id > uint32_t{std::numeric_limits<int32_t>::max()}) {
                throw Error(cat(stream_->name(), ": token ", taken_ + static_cast<int64_t>(place), " is ", id,
                                ", and a token from 0 to 2^31-1 is needed"));
            }
            ids[place] = static_cast<int32_t>(id);
        }
        buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(bytes));
        taken_ += static_cast<int64_t>(ids.size());
        return ids;
    }

    std::unique_ptr<InputStream> stream_;
    std::vector<char> buffer_;
    size_t id_bytes_ = sizeof(uint16_t);
    std::optional<int64_t> promised_;
    int64_t taken_ = 0;
    bool finished_ = false;
};

}  // namespace

std::unique_ptr<DocumentReader> read_bin_documents(std::unique_ptr<InputStream> stream) {
    return std::make_unique<BinReader>(std::move(stream));
}

}  // namespace accrue
