#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "accrue/data/documents/input_stream.h"

namespace accrue::fuzz {

// Bytes in memory as a stream; they must outlive it.
class MemoryStream final : public InputStream {
public:
    MemoryStream(std::string_view bytes, std::string name) : InputStream(std::move(name)), bytes_(bytes) {}

    size_t read(std::span<char> into) override {
        const size_t count = std::min(into.size(), bytes_.size() - place_);
        std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(place_), count, into.begin());
        place_ += count;
        return count;
    }
    [[nodiscard]] std::optional<int64_t> size() const override { return static_cast<int64_t>(bytes_.size()); }

private:
    std::string_view bytes_;
    size_t place_ = 0;
};

}  // namespace accrue::fuzz
