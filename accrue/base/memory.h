#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace accrue {

// What this process holds, from /proc/self/status.
struct ProcessMemory {
    int64_t resident_bytes = 0;       // now (VmRSS)
    int64_t peak_resident_bytes = 0;  // ever (VmHWM)
    int64_t anonymous_bytes = 0;      // of the resident ones, those that are no file's (RssAnon)
    int64_t address_bytes = 0;        // mapped, touched or not (VmSize)
    int64_t data_bytes = 0;           // private and writable (VmData)
};

// Everything the system says about memory that this process could take. All of it is read from files below `root`, so
// that a test can make up a machine.
struct MemoryFacts {
    int64_t physical_bytes = 0;
    std::optional<int64_t> available_bytes;  // MemAvailable
    ProcessMemory process;
    std::optional<int64_t> address_limit;  // ulimit -v
    std::optional<int64_t> data_limit;     // ulimit -d

    // A control group that this process is in, itself or through one below it.
    struct Group {
        std::string name;
        int64_t limit_bytes = 0;
        int64_t used_bytes = 0;  // by everybody in it, without the file pages that the system drops when it must
    };
    std::vector<Group> groups;  // those with a limit

    // The share of the last ten seconds in which all tasks waited for memory, 0 to 1, of the group or else the machine.
    double pressure = 0;
};

[[nodiscard]] MemoryFacts read_memory_facts(const std::filesystem::path& root = "/");

[[nodiscard]] ProcessMemory process_memory(const std::filesystem::path& root = "/");

// The most that this process may hold at once, and who says so.
struct MemoryBound {
    int64_t bytes = 0;
    std::string reason;         // "the machine can give 20.10 GiB"; "" if nothing is known
    int64_t address_bytes = 0;  // that may still be mapped, touched or not
    double pressure = 0;        // as in the facts
};

// The lowest of: what this process holds and the machine can add, each control group's limit less what others in it
// use, and the limits of `ulimit -v` and `-d`. Of a machine and of a group, 1/32 is left free: page tables and file pages
// that are being written need some.
[[nodiscard]] MemoryBound memory_bound(const MemoryFacts& facts);

// What a thread that starts later maps besides what it touches: its stack and its heap (glibc reserves 64 MiB, aligned).
inline constexpr int64_t kAddressesOfAThread = int64_t{136} << 20;

}  // namespace accrue
