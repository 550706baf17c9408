#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accrue {

// How many letters must be added, dropped, changed or swapped with their neighbour to make one text of the other.
[[nodiscard]] int edit_distance(std::string_view from, std::string_view to);
// The known text nearest to one that is not known; empty if none is near enough to be meant. Of a "section.key" a right key
// in a wrong section, or in none, is near too, and so is one cut short or with a word too many in front.
[[nodiscard]] std::string nearest_text(const std::string& unknown, const std::vector<std::string>& known);

}  // namespace accrue
