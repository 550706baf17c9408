#include "accrue/data/tokenizers/tokenizer.h"

#include "accrue/base/error.h"
#include "accrue/base/hash.h"

namespace accrue {
namespace {

constexpr std::string_view kEndText = "<|endoftext|>";

[[noreturn]] void fail_without_tokenizer() {
    throw Error("there is text to tokenize, but no tokenizer. Name one in data.tokenizer.");
}

bool is_byte(int32_t id) {
    return id >= 0 && id < ByteTokenizer::kEnd;
}

}  // namespace

std::vector<int32_t> ByteTokenizer::encode(std::string_view text) const {
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    for (const char letter : text) {
        ids.push_back(static_cast<unsigned char>(letter));
    }
    return ids;
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
    return decode(ids, Special::without);
}

std::vector<int32_t> ByteTokenizer::encode(std::string_view text, Special /*special*/) const {
    return encode(text);
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids, Special special) const {
    std::string text;
    text.reserve(ids.size());
    for (const int32_t id : ids) {
        if (is_byte(id)) {
            text.push_back(static_cast<char>(id));
        } else if (id == kEnd && special == Special::with) {
            text += kEndText;
        }
    }
    return text;
}

std::string ByteTokenizer::token_text(int32_t id) const {
    if (is_byte(id)) {
        return {static_cast<char>(id)};
    }
    return id == kEnd ? std::string(kEndText) : std::string();
}

std::string ByteTokenizer::fingerprint() const {
    constexpr std::string_view kName = "byte tokenizer 1";
    return hash_of(std::as_bytes(std::span(kName)));
}

// Not an error: whoever looks for what is put around a text finds nothing.
std::vector<int32_t> UnknownTokenizer::encode(std::string_view /*text*/, Special /*special*/) const {
    return {};
}

std::vector<int32_t> UnknownTokenizer::encode_plain(std::string_view /*text*/) const {
    fail_without_tokenizer();
}

std::vector<int32_t> UnknownTokenizer::encode_later_part(std::string_view /*text*/) const {
    fail_without_tokenizer();
}

std::string UnknownTokenizer::decode(std::span<const int32_t> /*ids*/, Special /*special*/) const {
    return "";
}

std::string UnknownTokenizer::token_text(int32_t /*id*/) const {
    return "";
}

std::string UnknownTokenizer::fingerprint() const {
    constexpr std::string_view kName = "unknown tokenizer 1";
    return hash_of(std::as_bytes(std::span(kName)));
}

}  // namespace accrue
