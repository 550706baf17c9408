#include "accrue/data/tokenizer.h"

namespace accrue {

std::vector<int32_t> ByteTokenizer::encode(std::string_view text) const {
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    for (const char letter : text) {
        ids.push_back(static_cast<unsigned char>(letter));
    }
    return ids;
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
    std::string text;
    text.reserve(ids.size());
    for (const int32_t id : ids) {
        if (id >= 0 && id < 256) {
            text.push_back(static_cast<char>(id));
        }
    }
    return text;
}

}  // namespace accrue
