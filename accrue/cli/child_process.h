#pragma once

#include <string>
#include <vector>

namespace accrue {

// Runs this program again with other arguments and returns what it wrote to its standard output; its errors go where ours
// do. Nothing has been started before that could make the child's memory look larger. An error if it fails.
[[nodiscard]] std::string output_of_this_program(const std::vector<std::string>& arguments);

// The words by which this program was called, with spaces between.
[[nodiscard]] std::string command_line();

}  // namespace accrue
