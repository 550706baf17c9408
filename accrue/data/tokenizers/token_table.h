#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accrue {

// Finds a token's id by its bytes.
class TokenTable {
public:
    TokenTable() = default;
    explicit TokenTable(std::span<const std::pair<std::string, int32_t>> tokens);
    // The id of the token with these bytes, or -1.
    [[nodiscard]] int32_t find(std::string_view bytes) const;

private:
    struct Slot {
        int32_t id = -1;
        uint32_t hash = 0;
        uint32_t begin = 0;
        uint32_t size = 0;
    };

    [[nodiscard]] size_t place_of(std::string_view bytes, uint64_t hash) const;

    std::vector<Slot> slots_ = std::vector<Slot>(1);
    std::string bytes_;
    size_t longest_ = 0;
};

}  // namespace accrue
