#pragma once

#include <string>
#include <string_view>

namespace accrue {

// The text with control characters (all but line ends and tabs) and bytes that are no UTF-8 spelled out, for example as
// \x1b: what a model writes must not move a terminal's cursor or change its settings. Whole characters only: half of
// one counts as bytes.
[[nodiscard]] std::string visible_text(std::string_view text);

}  // namespace accrue
