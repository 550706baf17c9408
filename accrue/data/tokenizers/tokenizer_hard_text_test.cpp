#include <algorithm>
#include <ctime>
#include <filesystem>

#include "tests/sanitized.h"
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/random.h"
#include "accrue/base/test_places.h"
#include "accrue/data/tokenizers/text_steps.h"
#include "accrue/data/tokenizers/tokenizer_files.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

using Ids = std::vector<int32_t>;

std::string random_bytes(uint64_t seed, size_t size) {
    std::string bytes;
    for (uint64_t i = 0; i < size; ++i) {
        bytes.push_back(static_cast<char>(mix(seed, i)));
    }
    return bytes;
}

std::string all_characters() {
    std::string text;
    for (char32_t character = 0; character <= 0x10FFFF; character += character < 0x3000 ? 1 : 7) {
        if (character < 0xD800 || character > 0xDFFF) {
            append_utf8(text, character);
        }
    }
    return text;
}

// Texts that nobody writes on purpose.
std::vector<std::string> texts_nobody_writes() {
    const size_t many = kSanitized ? 250'000 : 1'000'000;  // for time
    std::vector<std::string> texts = {std::string(many, 'a'),
                                      std::string(many, ' '),
                                      std::string(many, '\n') + "x",
                                      std::string(many, '\'') + std::string(many, '<'),
                                      std::string(1000, '\0'),
                                      "\xED\xA0\x80\xED\xB0\x80 lone surrogates \xED\xBF\xBF",
                                      "\xC0\x80 overlong \xE0\x80\xAF\xF0\x80\x80\xAF",
                                      "\xF4\x90\x80\x80 too large \xF7\xBF\xBF\xBF, cut \xE2\x96",
                                      all_characters()};
    for (uint64_t seed = 0; seed < 50; ++seed) {
        texts.push_back(random_bytes(seed, 1 + mix(seed) % 3000));
    }
    return texts;
}

std::unique_ptr<Tokenizer> golden_tokenizer(const std::string& name) {
    return open_tokenizer(source_folder() / "tests/golden" / name);
}

TEST(HardTextTest, ByteLevelTokenizersWriteItBack) {
    for (const char* name : {"tokenizer-gpt2", "tokenizer-llama3"}) {
        const std::unique_ptr<Tokenizer> tokenizer = golden_tokenizer(name);
        for (const std::string& text : texts_nobody_writes()) {
            const Ids ids = tokenizer->encode(text, Special::with);
            ASSERT_TRUE(tokenizer->decode(ids, Special::without) == text) << name << " of " << text.size() << " bytes";
        }
    }
}

// Characters that the vocabulary lacks become bytes, and so do bytes that are no characters. All bytes are special in
// this file, so only decoding with them writes the text back.
TEST(HardTextTest, ByteFallbackWritesItBack) {
    const std::unique_ptr<Tokenizer> tokenizer = golden_tokenizer("tokenizer-llama2");
    const Normalizer marks_to_spaces = replace_step("▁", " ");
    for (const std::string& text : texts_nobody_writes()) {
        const Ids ids = tokenizer->encode(text, Special::without);
        // A mark that stood in the text already comes back as a space.
        const std::string expected = marks_to_spaces(text);
        ASSERT_TRUE(tokenizer->decode(ids, Special::with) == expected) << text.size() << " bytes";
    }
}

// The SentencePiece library reads each byte that is no UTF-8 as a replacement character.
std::string with_replacement_characters(const std::string& text) {
    std::string result;
    for (size_t place = 0; place < text.size();) {
        const Character character = character_at(text, place);
        result += character.value == Character::kInvalid ? "\uFFFD" : text.substr(place, character.size);
        place += character.size;
    }
    return result;
}

TEST(HardTextTest, ASentencePieceModelWritesItBackWithReplacementCharacters) {
    const std::unique_ptr<Tokenizer> tokenizer = golden_tokenizer("tokenizer-sentencepiece/tokenizer.model");
    const Normalizer marks_to_spaces = replace_step("▁", " ");
    for (const std::string& text : texts_nobody_writes()) {
        const Ids ids = tokenizer->encode(text, Special::with);
        const std::string expected = marks_to_spaces(with_replacement_characters(text));
        ASSERT_TRUE(tokenizer->decode(ids, Special::without) == expected) << text.size() << " bytes";
    }
}

// All bytes as tokens and a few words behind them.
TEST(HardTextTest, RanksWriteItBack) {
    std::string file;
    int rank = 0;
    const auto add = [&](std::string_view token) {
        constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        std::string line;
        for (size_t i = 0; i < token.size(); i += 3) {
            const size_t count = std::min<size_t>(3, token.size() - i);
            uint32_t group = 0;
            for (size_t j = 0; j < 3; ++j) {
                group = group << 8U | (j < count ? static_cast<unsigned char>(token[i + j]) : 0U);
            }
            for (size_t j = 0; j < 4; ++j) {
                line += j <= count ? kDigits[group >> (18 - 6 * j) & 63U] : '=';
            }
        }
        file += cat(line, " ", rank++, "\n");
    };
    for (int byte = 0; byte < 256; ++byte) {
        const char letter = static_cast<char>(byte);
        add({&letter, 1});
    }
    for (const char* token : {"aa", "aaaa", "  ", "    ", "\n\n", "''", "<<", "th", "the"}) {
        add(token);
    }
    const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of_ranks(file, "ranks");
    for (const std::string& text : texts_nobody_writes()) {
        const Ids ids = tokenizer->encode(text, Special::with);
        ASSERT_TRUE(tokenizer->decode(ids, Special::without) == text) << text.size() << " bytes";
    }
}

// The processor time of encoding and decoding, the best of three.
double seconds_of(const Tokenizer& tokenizer, const std::string& text) {
    double best = 1e9;
    for (int round = 0; round < 3; ++round) {
        const std::clock_t start = std::clock();
        (void)tokenizer.decode(tokenizer.encode(text, Special::with), Special::with);
        best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
}

// 64 times the text takes about 64 times as long; were it to grow with the square, it would take 4,096 times. In between there
// is room for all that a busy machine can do to one of the two.
TEST(HardTextTest, TimeGrowsWithTheLengthAndNotWithItsSquare) {
    constexpr size_t kTimes = 64;
    constexpr size_t kShort = kSanitized ? 2'048 : 4'096;
    for (const char* name : {"tokenizer-gpt2", "tokenizer-llama2", "tokenizer-llama3", "tokenizer-qwen2",
                             "tokenizer-sentencepiece/tokenizer.model"}) {
        const std::unique_ptr<Tokenizer> tokenizer = golden_tokenizer(name);
        for (const std::string& piece : {std::string("a"), std::string(" "), std::string("\n"), std::string("ab"),
                                         std::string("e\u0301"), random_bytes(1, 4096)}) {
            std::string text;
            while (text.size() < kTimes * kShort) {
                text += piece;
            }
            const double brief = seconds_of(*tokenizer, text.substr(0, kShort));
            const double all = seconds_of(*tokenizer, text);
            EXPECT_LT(all, 16 * kTimes * brief + 0.1) << name << ", " << piece.substr(0, 4);
        }
    }
}

TEST(HardTextTest, ANormalizerWritesTheNormalizedText) {
    const std::unique_ptr<Tokenizer> tokenizer = golden_tokenizer("tokenizer-qwen2");
    for (const std::string& text : texts_nobody_writes()) {
        const Ids ids = tokenizer->encode(text, Special::with);
        ASSERT_TRUE(tokenizer->decode(ids, Special::without) == normalized(text, NormalForm::nfc))
            << text.size() << " bytes";
    }
}

TEST(HardTextTest, CuttingBetweenIdsKeepsTheBytes) {
    const std::unique_ptr<Tokenizer> tokenizer = golden_tokenizer("tokenizer-gpt2");
    const std::string text = "naïve 東京都 👩‍👩‍👧‍👦";
    std::string pieces;
    for (const int32_t id : tokenizer->encode(text, Special::without)) {
        pieces += tokenizer->decode(Ids{id}, Special::without);
    }
    EXPECT_EQ(pieces, text);
}

}  // namespace
}  // namespace accrue
