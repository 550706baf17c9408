#include "accrue/base/process_age.h"

#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

namespace accrue {
namespace {

// Behind the name, which may hold anything, spaces and brackets too. The start is the 22nd word of all (proc(5)), so
// the 20th after the name.
std::optional<double> start_since_boot(const std::filesystem::path& stat) {
    constexpr int kWordsBefore = 19;
    std::ifstream file(stat);
    std::string line;
    std::getline(file, line);
    const size_t name_end = line.rfind(')');
    if (name_end == std::string::npos) {
        return std::nullopt;
    }
    std::istringstream words(line.substr(name_end + 1));
    std::string word;
    for (int i = 0; i < kWordsBefore; ++i) {
        words >> word;
    }
    double ticks = 0;
    if (!(words >> ticks)) {
        return std::nullopt;
    }
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

std::optional<double> process_age_seconds(const std::filesystem::path& root) {
    const std::optional<double> start = start_since_boot(root / "proc/self/stat");
    timespec now{};
    if (!start || clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
        return std::nullopt;
    }
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - *start;
}

}  // namespace accrue
