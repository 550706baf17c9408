#pragma once

#include <cstdint>
#include <string>

namespace accrue {

// A short story by a small grammar: the same number always gives the same story. Plain English, one paragraph, ends in
// a newline.
[[nodiscard]] std::string story(uint64_t number);
// At least `bytes` bytes of stories, numbered from `first` on, with one empty line between them.
[[nodiscard]] std::string stories(uint64_t first, int64_t bytes);

}  // namespace accrue
