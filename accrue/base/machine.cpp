#include "accrue/base/machine.h"

#include <fstream>

#include <sched.h>
#include <sys/utsname.h>

namespace accrue {
namespace {

// The text behind the first "name:" or "name  :" of a file like /proc/cpuinfo; empty if there is none.
std::string value_in(const char* file, const std::string& name) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        const size_t colon = line.find(':');
        if (line.starts_with(name) && colon != std::string::npos) {
            const size_t start = line.find_first_not_of(" \t", colon + 1);
            return start == std::string::npos ? "" : line.substr(start);
        }
    }
    return "";
}

}  // namespace

int64_t usable_processors() {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

Machine this_machine() {
    Machine machine;
    if (std::string name = value_in("/proc/cpuinfo", "model name"); !name.empty()) {
        machine.processor = std::move(name);
    }
    machine.processors = usable_processors();
    if (const std::string memory = value_in("/proc/meminfo", "MemTotal"); !memory.empty()) {
        machine.memory_bytes = std::stoll(memory) * 1024;
    }
    utsname names{};
    if (uname(&names) == 0) {
        machine.system = std::string(names.sysname) + " " + names.release;
    }
    return machine;
}

}  // namespace accrue
