#include "accrue/train/settings_difference.h"

#include <sstream>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// Without what a line of to_toml() says of its key.
std::string without_comment(const std::string& line) {
    return line.substr(0, line.find(" #"));
}

}  // namespace

std::string difference_of_settings(const std::string& ours, const std::string& theirs) {
    std::istringstream our_lines(ours);
    std::istringstream their_lines(theirs);
    std::string our_line;
    std::string their_line;
    while (true) {
        const bool has_ours = static_cast<bool>(std::getline(our_lines, our_line));
        const bool has_theirs = static_cast<bool>(std::getline(their_lines, their_line));
        if (!has_ours && !has_theirs) {
            return "";
        }
        our_line = has_ours ? without_comment(our_line) : "nothing";
        their_line = has_theirs ? without_comment(their_line) : "nothing";
        if (our_line != their_line) {
            return cat("\"", our_line, "\" here, \"", their_line, "\" there");
        }
    }
}

}  // namespace accrue
