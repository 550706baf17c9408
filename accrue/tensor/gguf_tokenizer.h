#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accrue {

// A vocabulary as GGUF files carry it, in the words of llama.cpp.
struct GgufTokenizer {
    // ggml's numbers for kinds of tokens.
    enum Type : int32_t { normal = 1, unknown_token = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

    std::string model;                     // "gpt2" = byte-level pairs, "llama" = SentencePiece
    std::string pre;                       // how text is cut into words, for "gpt2": "gpt-2", "llama-bpe", "qwen2", ...
    std::vector<std::string> tokens;       // by id
    std::vector<int32_t> types = {};       // one per token; none = all normal
    std::vector<float> scores = {};        // one per token, for "llama"
    std::vector<std::string> merges = {};  // "left right", for "gpt2"
    std::optional<uint32_t> begin = std::nullopt;
    std::optional<uint32_t> end = std::nullopt;
    std::optional<uint32_t> unknown = std::nullopt;
    std::optional<uint32_t> padding = std::nullopt;
    std::optional<bool> add_begin = std::nullopt;         // does a text begin with `begin`?
    std::optional<bool> add_end = std::nullopt;           // does a text end with `end`?
    std::optional<bool> add_space_prefix = std::nullopt;  // does a text begin with a space? For "llama"
};

}  // namespace accrue
