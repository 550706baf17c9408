#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

// With the tokens that are no text (begin of text, end of document and the like), or without them.
enum class Special { with, without };

// Turns text into numbers and back. All members may be called from several threads at once.
class Tokenizer {
public:
    virtual ~Tokenizer() = default;
    // Special::with adds what the tokenizer puts around a text, such as a begin of text. Special tokens that are
    // spelled out in the text become their ids either way. Bytes that are no UTF-8 are allowed.
    [[nodiscard]] virtual std::vector<int32_t> encode(std::string_view text, Special special) const = 0;
    // A text that somebody else wrote: special tokens that are spelled out in it stay text, and nothing is added.
    [[nodiscard]] virtual std::vector<int32_t> encode_plain(std::string_view text) const = 0;
    // The same for text that goes on with a text encoded before: no prefix, such as the mark for a space, is put before
    // it. Cut before the white space behind a word, and the ids of the parts are mostly those of the whole.
    [[nodiscard]] virtual std::vector<int32_t> encode_later_part(std::string_view text) const = 0;
    // Special::without leaves special tokens out. Ids that are not in the vocabulary write nothing. The result is bytes:
    // half a character stays half a character, so that text can be decoded piece by piece.
    [[nodiscard]] virtual std::string decode(std::span<const int32_t> ids, Special special) const = 0;
    // Can ids that follow change the text of those before, beyond completing a character? Then nothing of the text is
    // certain before the last id.
    [[nodiscard]] virtual bool rewrites_text() const { return false; }
    // One more than the largest id.
    [[nodiscard]] virtual int64_t vocabulary() const = 0;
    // The id that stands between documents, where the tokenizer has one.
    [[nodiscard]] virtual std::optional<int32_t> end_of_document() const = 0;
    // A token as the vocabulary spells it, for example "Ġthe" or "<0x0A>"; empty for an id without a token.
    [[nodiscard]] virtual std::string token_text(int32_t id) const = 0;
    // A checksum: tokenizers with the same one encode alike, so that it can be part of a cache's key.
    [[nodiscard]] virtual std::string fingerprint() const = 0;
};

// Text as bytes: ids 0..255 are bytes, 256 ends a document. Needs no file and can write any text.
class ByteTokenizer final : public Tokenizer {
public:
    static constexpr int32_t kEnd = 256;
    static constexpr int64_t kVocabulary = 257;

    [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const;
    // Ids outside 0..255 write nothing.
    [[nodiscard]] std::string decode(std::span<const int32_t> ids) const;

    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, Special special) const override;
    [[nodiscard]] std::vector<int32_t> encode_plain(std::string_view text) const override { return encode(text); }
    [[nodiscard]] std::vector<int32_t> encode_later_part(std::string_view text) const override { return encode(text); }
    [[nodiscard]] std::string decode(std::span<const int32_t> ids, Special special) const override;
    [[nodiscard]] int64_t vocabulary() const override { return kVocabulary; }
    [[nodiscard]] std::optional<int32_t> end_of_document() const override { return kEnd; }
    [[nodiscard]] std::string token_text(int32_t id) const override;
    [[nodiscard]] std::string fingerprint() const override;
};

// Stands for the tokenizer where data holds token ids whose text is not known: it has no token of its own, and the text
// of a document is an error.
class UnknownTokenizer final : public Tokenizer {
public:
    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, Special special) const override;
    [[nodiscard]] std::vector<int32_t> encode_plain(std::string_view text) const override;
    [[nodiscard]] std::vector<int32_t> encode_later_part(std::string_view text) const override;
    [[nodiscard]] std::string decode(std::span<const int32_t> ids, Special special) const override;
    [[nodiscard]] int64_t vocabulary() const override { return int64_t{1} << 31; }
    [[nodiscard]] std::optional<int32_t> end_of_document() const override { return std::nullopt; }
    [[nodiscard]] std::string token_text(int32_t id) const override;
    [[nodiscard]] std::string fingerprint() const override;
};

// The tokenizer at a path: "byte"; a tokenizer.json; a SentencePiece model; a file of ranks as tiktoken has them; a
// vocab.json with a merges.txt; or a model folder with one of these. Files are told apart by what is in them. Errors name
// the file and what is not supported in it.
[[nodiscard]] std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path);

// The file of a folder that open_tokenizer() would open; nothing if it holds no tokenizer.
[[nodiscard]] std::optional<std::filesystem::path> tokenizer_file_in(const std::filesystem::path& folder);

}  // namespace accrue
