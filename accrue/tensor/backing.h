#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "accrue/base/long_work.h"

namespace accrue {

// Where the bytes of an arena lie: in host memory, in a device's, or nowhere, for counting.
class Backing {
public:
    virtual ~Backing() = default;

    // The first byte, aligned to 64 at least. Only operations and transfers may read or write what lies there.
    [[nodiscard]] virtual std::byte* base() const = 0;
    // Nothing for one without an end.
    [[nodiscard]] virtual std::optional<int64_t> capacity() const = 0;
    // Free memory between two offsets goes back to the system, in whole pages; what was in it is lost.
    virtual void give_back(int64_t first, int64_t last) = 0;
    // Takes the first `bytes` from the system now, so that a machine without them says so before a run. What is in them
    // stays as it is. Counts bytes.
    virtual void touch(int64_t bytes, const LongWork& work) = 0;

    // An operation or a transfer begins, and has ended. May be nested, and called by several threads.
    virtual void open() {}
    virtual void close() {}
};

// Host memory on huge pages, where the system has them. An error if there is no room for it.
[[nodiscard]] std::unique_ptr<Backing> make_host_backing(int64_t bytes);
// No memory: addresses that fault when they are read or written.
[[nodiscard]] std::unique_ptr<Backing> make_dry_backing();
// Host memory as a device's: it can be read and written only while it is open, and anybody else faults.
[[nodiscard]] std::unique_ptr<Backing> make_guarded_backing(int64_t bytes);

}  // namespace accrue
