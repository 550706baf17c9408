#include "accrue/base/memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// Above that a limit means none: version 1 of control groups writes "no limit" as a number of that size.
constexpr int64_t kNoLimit = int64_t{1} << 60;

// The first number in each line that has one, by the word the line begins with: meminfo, status, memory.stat.
std::map<std::string, int64_t> numbers_in(const fs::path& file) {
    std::map<std::string, int64_t> numbers;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string name;
        int64_t number = 0;
        if (words >> name >> number) {
            numbers.emplace(name, number);
        }
    }
    return numbers;
}

int64_t kilobytes_of(const std::map<std::string, int64_t>& numbers, const std::string& name) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? 0 : found->second * 1024;
}

// A file with one number; nothing if it is not there, says "max" or means no limit.
std::optional<int64_t> number_in(const fs::path& file) {
    std::ifstream input(file);
    int64_t number = 0;
    if (!(input >> number) || number >= kNoLimit) {
        return std::nullopt;
    }
    return number;
}

// The soft limit in a line of /proc/self/limits: "Max address space         8589934592    unlimited    bytes".
std::optional<int64_t> limit_in(const fs::path& file, const std::string& name) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        int64_t number = 0;
        if (line.starts_with(name) && std::istringstream(line.substr(name.size())) >> number && number < kNoLimit) {
            return number;
        }
    }
    return std::nullopt;
}

int64_t file_pages(const std::map<std::string, int64_t>& numbers, const std::string& prefix) {
    int64_t bytes = 0;
    for (const char* kind : {"active_file", "inactive_file"}) {
        const auto found = numbers.find(prefix + kind);
        bytes += found == numbers.end() ? 0 : found->second;
    }
    return bytes;
}

// How the two versions of control groups name the same things.
struct GroupFiles {
    std::vector<const char*> limits;
    const char* used;
    const char* prefix;  // of the sums over a group and all below it, in memory.stat
};

const GroupFiles kVersion1{.limits = {"memory.limit_in_bytes"}, .used = "memory.usage_in_bytes", .prefix = "total_"};
// Above memory.high a process is slowed down until it stands still: for a run that is a limit too.
const GroupFiles kVersion2{.limits = {"memory.max", "memory.high"}, .used = "memory.current", .prefix = ""};

// The group at `path` below a mount and all above it. Inside a container the path may be the host's: what is not there
// is passed over, and the mount's own root is looked at in any case.
void add_groups(const fs::path& mount, const fs::path& path, const GroupFiles& files,
                std::vector<MemoryFacts::Group>& groups) {
    for (fs::path place = path.relative_path();; place = place.parent_path()) {
        const fs::path folder = place.empty() ? mount : mount / place;
        const auto used = number_in(folder / files.used);
        for (const char* name : files.limits) {
            const auto limit = number_in(folder / name);
            if (used && limit) {
                const int64_t files_of_group = file_pages(numbers_in(folder / "memory.stat"), files.prefix);
                groups.push_back({.name = cat("/", place.string(), " (", name, ")"),
                                  .limit_bytes = *limit,
                                  .used_bytes = std::max<int64_t>(0, *used - files_of_group)});
            }
        }
        if (place.empty()) {
            return;
        }
    }
}

// "full avg10=1.50 avg60=..." as 0.015.
std::optional<double> pressure_in(const fs::path& file) {
    std::ifstream lines(file);
    const std::string start = "full avg10=";
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(start)) {
            return std::strtod(line.c_str() + start.size(), nullptr) / 100;
        }
    }
    return std::nullopt;
}

void read_groups(const fs::path& root, MemoryFacts& facts) {
    const fs::path mounts = root / "sys" / "fs" / "cgroup";
    std::optional<double> pressure;
    std::ifstream lines(root / "proc" / "self" / "cgroup");
    for (std::string line; std::getline(lines, line);) {
        const size_t first = line.find(':');
        const size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) {
            continue;
        }
        const std::string controllers = cat(",", line.substr(first + 1, second - first - 1), ",");
        const fs::path path = line.substr(second + 1);
        if (controllers == ",,") {
            for (const fs::path& mount : {mounts, mounts / "unified"}) {
                add_groups(mount, path, kVersion2, facts.groups);
                pressure = pressure ? pressure : pressure_in(mount / path.relative_path() / "memory.pressure");
            }
        } else if (controllers.find(",memory,") != std::string::npos) {
            add_groups(mounts / "memory", path, kVersion1, facts.groups);
        }
    }
    pressure = pressure ? pressure : pressure_in(root / "proc" / "pressure" / "memory");
    facts.pressure = pressure.value_or(0);
}

}  // namespace

ProcessMemory process_memory(const fs::path& root) {
    const auto status = numbers_in(root / "proc" / "self" / "status");
    return {.resident_bytes = kilobytes_of(status, "VmRSS:"),
            .peak_resident_bytes = kilobytes_of(status, "VmHWM:"),
            .anonymous_bytes = kilobytes_of(status, "RssAnon:"),
            .address_bytes = kilobytes_of(status, "VmSize:"),
            .data_bytes = kilobytes_of(status, "VmData:")};
}

MemoryFacts read_memory_facts(const fs::path& root) {
    MemoryFacts facts;
    const auto machine = numbers_in(root / "proc" / "meminfo");
    facts.physical_bytes = kilobytes_of(machine, "MemTotal:");
    if (machine.contains("MemAvailable:")) {
        facts.available_bytes = kilobytes_of(machine, "MemAvailable:");
    }
    facts.process = process_memory(root);
    const fs::path limits = root / "proc" / "self" / "limits";
    facts.address_limit = limit_in(limits, "Max address space");
    facts.data_limit = limit_in(limits, "Max data size");
    read_groups(root, facts);
    return facts;
}

MemoryBound memory_bound(const MemoryFacts& facts) {
    constexpr int64_t kLeftFree = 32;
    constexpr int64_t kNothingBinds = std::numeric_limits<int64_t>::max();
    MemoryBound bound{.bytes = kNothingBinds, .reason = "", .address_bytes = kNothingBinds, .pressure = facts.pressure};
    const auto take = [&bound](int64_t bytes, const auto&... reason) {
        if (bytes < bound.bytes) {
            bound.bytes = std::max<int64_t>(bytes, 0);
            bound.reason = cat(reason...);
        }
    };
    const ProcessMemory& process = facts.process;
    if (facts.available_bytes) {
        const int64_t most = process.anonymous_bytes + *facts.available_bytes - facts.physical_bytes / kLeftFree;
        take(most, "the machine can give ", format_bytes(std::max<int64_t>(most, 0)));
    }
    for (const MemoryFacts::Group& group : facts.groups) {
        const int64_t others = std::max<int64_t>(0, group.used_bytes - process.anonymous_bytes);
        take(group.limit_bytes - group.limit_bytes / kLeftFree - others, "the control group ", group.name,
             " is limited to ", format_bytes(group.limit_bytes), ", of which others use ", format_bytes(others));
    }
    // These count what is mapped, touched or not; what this process holds beyond that stays as it is.
    const auto take_mapped = [&](const std::optional<int64_t>& limit, int64_t mapped, const char* name) {
        if (limit) {
            const int64_t more = std::max<int64_t>(0, *limit - mapped - kAddressesOfAThread);
            bound.address_bytes = std::min(bound.address_bytes, more);
            take(process.resident_bytes + more, "ulimit ", name, " is ", format_bytes(*limit), ", of which ",
                 format_bytes(mapped), " are mapped already and a thread may map ", format_bytes(kAddressesOfAThread));
        }
    };
    take_mapped(facts.address_limit, process.address_bytes, "-v");
    take_mapped(facts.data_limit, process.data_bytes, "-d");
    return bound;
}

}  // namespace accrue
