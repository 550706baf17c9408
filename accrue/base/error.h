#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace accrue {

// Whatever a user or a machine can cause. The message is a sentence: what was asked, what was found, what to do.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// The parts written one after another, as by operator<<.
template <class... Parts>
[[nodiscard]] std::string cat(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

}  // namespace accrue
