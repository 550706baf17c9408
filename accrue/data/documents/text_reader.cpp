#include <cctype>
#include <span>
#include <string>
#include <utility>

#include <unicode/uchar.h>

#include "accrue/base/error.h"
#include "accrue/data/documents/document_readers.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kLongestCharacter = 4;

bool is_ascii_space(char letter) {
    return std::isspace(static_cast<unsigned char>(letter)) != 0;
}

bool is_letter_or_digit(char32_t character) {
    return u_isalnum(static_cast<UChar32>(character)) != 0;
}

// May a piece end before this place? The patterns of GPT-2's kind never join a word with the white space behind it, nor
// punctuation with a space behind it; newer ones do join punctuation with a line end.
bool is_safe_end(std::string_view text, size_t place) {
    if (!is_ascii_space(text[place])) {
        return false;
    }
    const char32_t before = character_before(text, place).value;
    return text[place] == ' ' ? !is_white_space(before) : is_letter_or_digit(before);
}

// Where the first piece of a longer text ends: at a safe place in the second half of what it may hold, else behind a
// line end, else between two characters.
size_t end_of_piece(std::string_view text) {
    constexpr size_t kShortestPiece = kPieceBytes / 2;
    for (size_t place = kPieceBytes; place >= kShortestPiece; --place) {
        if (is_safe_end(text, place)) {
            return place;
        }
    }
    const size_t line_end = text.rfind('\n', kPieceBytes - 1);
    if (line_end != std::string_view::npos && line_end >= kShortestPiece) {
        return line_end + 1;
    }
    size_t place = kPieceBytes;
    while ((static_cast<unsigned char>(text[place]) & 0xC0U) == 0x80U) {
        --place;
    }
    return place;
}

// A file of UTF-8 as one document, handed out in pieces.
class TextReader final : public DocumentReader {
public:
    explicit TextReader(std::unique_ptr<InputStream> stream) : stream_(std::move(stream)) {}

    bool next(Document& document) override {
        if (finished_) {
            return false;
        }
        fill();
        if (buffer_.empty()) {
            throw Error(cat(stream_->name(), " is empty: a text file needs at least one byte"));
        }
        check_utf8();
        const size_t end = buffer_.size() > kPieceBytes ? end_of_piece(buffer_) : buffer_.size();
        finished_ = end == buffer_.size();
        document = {.parts = {{.text = buffer_.substr(0, end), .ids = {}}}, .unfinished = !finished_};
        buffer_.erase(0, end);
        place_ += static_cast<int64_t>(end);
        return true;
    }

private:
    // A character more than a piece, so that what stands at the end of the piece can be seen whole.
    void fill() {
        if (place_ == 0) {
            drop_byte_order_mark();
        }
        at_end_ = !read_up_to(kPieceBytes + kLongestCharacter);
    }

    void drop_byte_order_mark() {
        read_up_to(kByteOrderMark.size());
        if (buffer_ == kByteOrderMark) {
            buffer_.clear();
            place_ = static_cast<int64_t>(kByteOrderMark.size());
        }
    }

    // Makes the buffer that long; false if the file ends before.
    bool read_up_to(size_t size) {
        const size_t kept = buffer_.size();
        buffer_.resize(size);
        buffer_.resize(kept + stream_->read(std::span(buffer_).subspan(kept)));
        return buffer_.size() == size;
    }

    void check_utf8() const {
        const size_t bad = find_no_utf8(buffer_);
        // The last character of the buffer may be cut; it is looked at again with the next piece.
        if (bad != std::string::npos && (at_end_ || bad < kPieceBytes)) {
            throw Error(cat(stream_->name(), " is not UTF-8 at byte ", place_ + static_cast<int64_t>(bad),
                            " (counted from 0). Convert it to UTF-8, for example with iconv."));
        }
    }

    std::unique_ptr<InputStream> stream_;
    std::string buffer_;
    int64_t place_ = 0;  // of the buffer in the unpacked file
    bool at_end_ = false;
    bool finished_ = false;
};

}  // namespace

std::unique_ptr<DocumentReader> read_text_documents(std::unique_ptr<InputStream> stream) {
    return std::make_unique<TextReader>(std::move(stream));
}

}  // namespace accrue
