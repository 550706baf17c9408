#include "accrue/data/documents/input_stream.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <zlib.h>
#include <zstd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

class PlainStream final : public InputStream {
public:
    explicit PlainStream(const fs::path& file) : InputStream(file.string()), file_(file) {}

    size_t read(std::span<char> into) override {
        const auto count = std::min(into.size(), static_cast<size_t>(file_.size() - place_));
        file_.read(place_, std::as_writable_bytes(into.first(count)));
        place_ += static_cast<int64_t>(count);
        return count;
    }

    [[nodiscard]] std::optional<int64_t> size() const override { return file_.size(); }

private:
    InputFile file_;
    int64_t place_ = 0;
};

// The compressed bytes of a file, a buffer at a time.
class CompressedBytes {
public:
    explicit CompressedBytes(const fs::path& file) : stream_(file) {}

    // The bytes that follow; none at the end.
    [[nodiscard]] std::span<char> next() { return std::span(buffer_).first(stream_.read(buffer_)); }

    [[noreturn]] void fail_cut_short() const {
        throw Error(cat(stream_.name(),
                        " is cut short: its compressed data ends in the middle. Copy it or compress it again."));
    }
    [[noreturn]] void fail_damaged(const char* reason) const {
        throw Error(
            cat(stream_.name(), " is damaged: it cannot be unpacked (", reason, "). Copy it or compress it again."));
    }

private:
    PlainStream stream_;
    std::vector<char> buffer_ = std::vector<char>(size_t{1} << 18);
};

// gzip, also several files packed one behind the other. Not zlib's gzread(), which hands out what is not compressed as it is.
class GzipStream final : public InputStream {
public:
    explicit GzipStream(const fs::path& file) : InputStream(file.string()), bytes_(file) {
        constexpr int kLargestWindow = 15;
        constexpr int kGzipOnly = 16;
        if (inflateInit2(&state_, kLargestWindow + kGzipOnly) != Z_OK) {
            throw Error(cat("cannot unpack ", name(), ": zlib does not start"));
        }
    }
    ~GzipStream() override { inflateEnd(&state_); }

    size_t read(std::span<char> into) override {
        size_t done = 0;
        while (done < into.size() && has_input()) {
            done += unpack(into.subspan(done));
        }
        return done;
    }

private:
    bool has_input() {
        if (state_.avail_in == 0) {
            const std::span<char> more = bytes_.next();
            state_.next_in = reinterpret_cast<Bytef*>(more.data());
            state_.avail_in = static_cast<uInt>(more.size());
        }
        if (state_.avail_in == 0 && inside_) {
            bytes_.fail_cut_short();
        }
        return state_.avail_in > 0;
    }

    size_t unpack(std::span<char> into) {
        const size_t room = std::min<size_t>(into.size(), std::numeric_limits<uInt>::max());
        state_.next_out = reinterpret_cast<Bytef*>(into.data());
        state_.avail_out = static_cast<uInt>(room);
        const int result = inflate(&state_, Z_NO_FLUSH);
        if (result != Z_OK && result != Z_STREAM_END) {
            bytes_.fail_damaged(state_.msg != nullptr ? state_.msg : "zlib gives no reason");
        }
        inside_ = result == Z_OK;
        if (result == Z_STREAM_END) {
            inflateReset(&state_);
        }
        return room - state_.avail_out;
    }

    CompressedBytes bytes_;
    z_stream state_{};
    bool inside_ = true;  // at first too: a file of no bytes is no gzip file
};

// Zstandard, also several frames one behind the other.
class ZstandardStream final : public InputStream {
public:
    explicit ZstandardStream(const fs::path& file)
        : InputStream(file.string()), bytes_(file), state_(ZSTD_createDCtx(), &ZSTD_freeDCtx) {
        // Large public collections are packed with `zstd --long=31`; memory for such a window is taken only if a file
        // asks for it.
        if (state_ == nullptr || ZSTD_isError(ZSTD_DCtx_setParameter(state_.get(), ZSTD_d_windowLogMax, 31)) != 0) {
            throw Error(cat("cannot unpack ", name(), ": Zstandard does not start"));
        }
    }

    size_t read(std::span<char> into) override {
        ZSTD_outBuffer output = {into.data(), into.size(), 0};
        while (output.pos < output.size) {
            const bool has_input = refill();
            if (!has_input && pending_ == 0) {
                break;
            }
            const size_t before = output.pos;
            pending_ = ZSTD_decompressStream(state_.get(), &output, &input_);
            if (ZSTD_isError(pending_) != 0) {
                bytes_.fail_damaged(ZSTD_getErrorName(pending_));
            }
            // Without input there may still be output that had no room before.
            if (!has_input && pending_ != 0 && output.pos == before) {
                bytes_.fail_cut_short();
            }
        }
        return output.pos;
    }

private:
    bool refill() {
        if (input_.pos == input_.size) {
            const std::span<char> more = bytes_.next();
            input_ = {more.data(), more.size(), 0};
        }
        return input_.size > 0;
    }

    CompressedBytes bytes_;
    std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> state_;
    ZSTD_inBuffer input_ = {nullptr, 0, 0};
    size_t pending_ = 1;  // what the library still waits for; at first a frame: a file of no bytes is no .zst file
};

}  // namespace

std::unique_ptr<InputStream> open_stream(const fs::path& file) {
    if (file.extension() == ".gz") {
        return std::make_unique<GzipStream>(file);
    }
    if (file.extension() == ".zst") {
        return std::make_unique<ZstandardStream>(file);
    }
    return std::make_unique<PlainStream>(file);
}

fs::path without_compression(const fs::path& file) {
    const bool compressed = file.extension() == ".gz" || file.extension() == ".zst";
    return compressed ? fs::path(file).replace_extension() : file;
}

}  // namespace accrue
