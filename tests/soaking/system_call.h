#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <linux/filter.h>
#include <sys/types.h>
#include <sys/user.h>

namespace accrue::soaking {

// A system call that a thread is about to make, seen through its registers (x86-64).
class SystemCall {
public:
    explicit SystemCall(pid_t thread);

    // Does it change a file or a folder? A pipe and a terminal are neither.
    [[nodiscard]] bool changes_files() const;
    // Does it need room on a disk?
    [[nodiscard]] bool needs_room() const;
    // Its name and the file it is about.
    [[nodiscard]] std::string text() const;

    // The descriptor that is written to or synced; -1 for other calls.
    [[nodiscard]] int written() const;
    [[nodiscard]] int synced() const;

    // The errors that a disk may cause here.
    [[nodiscard]] std::vector<int> possible_errors() const;
    // Is not made; the thread gets this error instead.
    void fail(int error);
    // Of a write: only the first half is written. False for other calls.
    bool halve();

private:
    [[nodiscard]] std::filesystem::path path_of_descriptor(int descriptor) const;
    [[nodiscard]] std::string path() const;
    [[nodiscard]] std::string text_at(unsigned long long address) const;

    pid_t thread_;
    user_regs_struct registers_{};
};

// A filter that stops a thread for its tracer at calls that may change files, or at all calls.
[[nodiscard]] std::vector<sock_filter> filter_of_changes();
[[nodiscard]] std::vector<sock_filter> filter_of_all_calls();

}  // namespace accrue::soaking
