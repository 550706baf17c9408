#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accrue {

// A model's shape as the keys of [model] ask for it. What is left open (0, "" or nothing) is as in the preset or, where a
// family stands alone, as is usual for it.
struct ModelShape {
    std::string family = {};
    int64_t layers = 0;
    int64_t width = 0;
    int64_t heads = 0;
    int64_t key_heads = 0;
    int64_t ffn = 0;
    int64_t positions = 0;
    int64_t vocabulary = 0;
    std::optional<bool> tied = {};
    double dropout = 0;

    bool operator==(const ModelShape&) const = default;
};

// What a model must know of the tokenizer.
struct Words {
    int64_t count = 0;  // 0 = there is none
    std::optional<int32_t> end_of_document = {};
};

}  // namespace accrue
