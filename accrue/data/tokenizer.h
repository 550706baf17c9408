#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

// Text as bytes: ids 0..255 are bytes, 256 ends a document. Needs no file and can write any text.
class ByteTokenizer {
public:
    static constexpr int32_t kEnd = 256;
    static constexpr int64_t kVocabulary = 257;

    [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const;
    // Ids outside 0..255 write nothing.
    [[nodiscard]] std::string decode(std::span<const int32_t> ids) const;
};

}  // namespace accrue
