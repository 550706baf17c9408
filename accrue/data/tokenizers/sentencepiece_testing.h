#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "accrue/data/tokenizers/sentencepiece_model.h"

namespace accrue {

// Writes a SentencePiece model file field by field, for tests that need one that no trainer makes. Several models put
// behind each other are one model: that is how protocol buffers work.
class SentencePieceWriter {
public:
    using PieceType = SentencePieceModel::PieceType;

    SentencePieceWriter& piece(std::string_view text, float score, PieceType type = PieceType::normal) {
        std::string message = with_bytes(1, text);
        message += "\x15";  // field 2, four bytes
        const auto bits = std::bit_cast<uint32_t>(score);
        for (unsigned shift = 0; shift < 32; shift += 8) {
            message.push_back(static_cast<char>(bits >> shift));
        }
        message += with_number(3, static_cast<uint64_t>(type));
        contents_ += with_bytes(1, message);
        return *this;
    }

    // All 256 pieces <0x00>.. of a model with byte fallback, which the library wants to be told as well.
    SentencePieceWriter& bytes() {
        constexpr std::string_view kDigits = "0123456789ABCDEF";
        for (size_t byte = 0; byte < 256; ++byte) {
            piece(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", 0, PieceType::byte);
        }
        return trainer(35, 1);
    }

    SentencePieceWriter& trainer(uint64_t field, uint64_t value) {
        contents_ += with_bytes(2, with_number(field, value));
        return *this;
    }
    SentencePieceWriter& normalizer(uint64_t field, uint64_t value) {
        contents_ += with_bytes(3, with_number(field, value));
        return *this;
    }
    SentencePieceWriter& character_table(std::string_view table) {
        contents_ += with_bytes(3, with_bytes(2, table));
        return *this;
    }

    // Pairs, no character changed, all spaces kept.
    SentencePieceWriter& like_llama() { return trainer(3, 2).normalizer(4, 0); }

    [[nodiscard]] const std::string& contents() const { return contents_; }

private:
    static std::string varint(uint64_t value) {
        std::string bytes;
        for (; value >= 0x80; value >>= 7U) {
            bytes.push_back(static_cast<char>(0x80U | (value & 0x7FU)));
        }
        bytes.push_back(static_cast<char>(value));
        return bytes;
    }
    static std::string with_number(uint64_t field, uint64_t value) { return varint(field << 3U) + varint(value); }
    static std::string with_bytes(uint64_t field, std::string_view bytes) {
        return varint(field << 3U | 2U) + varint(bytes.size()) + std::string(bytes);
    }

    std::string contents_;
};

}  // namespace accrue
