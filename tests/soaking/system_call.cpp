#include "tests/soaking/system_call.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue::soaking {
namespace {

// What a call is about, and the arguments that say which file.
enum class Act { write, sync, open, remove, move, make, cut };

struct KnownCall {
    unsigned long long number;
    const char* name;
    Act act;
    int descriptor;  // the argument that is a descriptor of a file; -1 = none
    int path;        // the argument that is a path; -1 = none
};

constexpr std::array kKnownCalls = {
    KnownCall{SYS_write, "write", Act::write, 0, -1},
    KnownCall{SYS_writev, "writev", Act::write, 0, -1},
    KnownCall{SYS_pwrite64, "pwrite", Act::write, 0, -1},
    KnownCall{SYS_sendfile, "sendfile", Act::write, 0, -1},
    KnownCall{SYS_copy_file_range, "copy_file_range", Act::write, 2, -1},
    KnownCall{SYS_fallocate, "fallocate", Act::write, 0, -1},
    KnownCall{SYS_fsync, "fsync", Act::sync, 0, -1},
    KnownCall{SYS_fdatasync, "fdatasync", Act::sync, 0, -1},
    KnownCall{SYS_ftruncate, "ftruncate", Act::cut, 0, -1},
    KnownCall{SYS_truncate, "truncate", Act::cut, -1, 0},
    KnownCall{SYS_open, "open", Act::open, -1, 0},
    KnownCall{SYS_openat, "openat", Act::open, -1, 1},
    KnownCall{SYS_creat, "creat", Act::open, -1, 0},
    KnownCall{SYS_rename, "rename", Act::move, -1, 1},
    KnownCall{SYS_renameat, "renameat", Act::move, -1, 3},
    KnownCall{SYS_renameat2, "renameat2", Act::move, -1, 3},
    KnownCall{SYS_link, "link", Act::move, -1, 1},
    KnownCall{SYS_linkat, "linkat", Act::move, -1, 3},
    KnownCall{SYS_unlink, "unlink", Act::remove, -1, 0},
    KnownCall{SYS_unlinkat, "unlinkat", Act::remove, -1, 1},
    KnownCall{SYS_rmdir, "rmdir", Act::remove, -1, 0},
    KnownCall{SYS_mkdir, "mkdir", Act::make, -1, 0},
    KnownCall{SYS_mkdirat, "mkdirat", Act::make, -1, 1},
};

const KnownCall* known(unsigned long long number) {
    const auto* found = std::find_if(kKnownCalls.begin(), kKnownCalls.end(),
                                     [&](const KnownCall& call) { return call.number == number; });
    return found == kKnownCalls.end() ? nullptr : found;
}

unsigned long long argument(const user_regs_struct& registers, int index) {
    return std::array{
        registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9}[static_cast<size_t>(
        index)];
}

bool may_create(const user_regs_struct& registers) {
    const bool has_flags = registers.orig_rax != SYS_creat;
    const int flags = registers.orig_rax == SYS_openat ? 2 : 1;
    return !has_flags || (argument(registers, flags) & (O_CREAT | O_TRUNC)) != 0;
}

// Not a pipe or a terminal.
bool is_on_disk(const std::filesystem::path& path) {
    std::error_code gone;
    const auto type = std::filesystem::status(path, gone).type();
    return type == std::filesystem::file_type::regular || type == std::filesystem::file_type::directory;
}

sock_filter statement(unsigned short code, unsigned int value) {
    return {.code = code, .jt = 0, .jf = 0, .k = value};
}

sock_filter jump_if_equal(unsigned int value, unsigned char then, unsigned char otherwise) {
    return {.code = BPF_JMP | BPF_JEQ | BPF_K, .jt = then, .jf = otherwise, .k = value};
}

}  // namespace

SystemCall::SystemCall(pid_t thread) : thread_(thread) {
    if (ptrace(PTRACE_GETREGS, thread_, nullptr, &registers_) != 0) {
        registers_.orig_rax = ~0ULL;  // the thread is gone: no call
    }
}

bool SystemCall::changes_files() const {
    const KnownCall* call = known(registers_.orig_rax);
    if (call == nullptr || (call->act == Act::open && !may_create(registers_))) {
        return false;
    }
    return call->descriptor < 0 ||
           is_on_disk(path_of_descriptor(static_cast<int>(argument(registers_, call->descriptor))));
}

bool SystemCall::needs_room() const {
    const KnownCall* call = known(registers_.orig_rax);
    return changes_files() && (call->act == Act::write || call->act == Act::open || call->act == Act::make);
}

std::string SystemCall::text() const {
    const KnownCall* call = known(registers_.orig_rax);
    return call == nullptr ? cat("system call number ", static_cast<long long>(registers_.orig_rax))
                           : cat(call->name, " of ", path());
}

int SystemCall::written() const {
    const KnownCall* call = known(registers_.orig_rax);
    const bool writes = call != nullptr && call->descriptor >= 0 && call->act != Act::sync;
    return writes ? static_cast<int>(argument(registers_, call->descriptor)) : -1;
}

int SystemCall::synced() const {
    const KnownCall* call = known(registers_.orig_rax);
    return call != nullptr && call->act == Act::sync ? static_cast<int>(argument(registers_, 0)) : -1;
}

std::vector<int> SystemCall::possible_errors() const {
    const KnownCall* call = known(registers_.orig_rax);
    switch (call == nullptr ? Act::remove : call->act) {
        case Act::write:
        case Act::sync:
        case Act::open:
        case Act::move:
        case Act::make:
            return {ENOSPC, EIO, EDQUOT};
        default:
            return {EIO};
    }
}

void SystemCall::fail(int error) {
    registers_.orig_rax = ~0ULL;  // no such call: the kernel skips it and leaves the result alone
    registers_.rax = static_cast<unsigned long long>(-error);
    ptrace(PTRACE_SETREGS, thread_, nullptr, &registers_);
}

bool SystemCall::halve() {
    const bool writes = registers_.orig_rax == SYS_write || registers_.orig_rax == SYS_pwrite64;
    if (!writes || registers_.rdx < 2) {
        return false;
    }
    registers_.rdx /= 2;
    return ptrace(PTRACE_SETREGS, thread_, nullptr, &registers_) == 0;
}

std::filesystem::path SystemCall::path_of_descriptor(int descriptor) const {
    return cat("/proc/", thread_, "/fd/", descriptor);
}

std::string SystemCall::path() const {
    const KnownCall* call = known(registers_.orig_rax);
    if (call->descriptor >= 0) {
        std::error_code gone;
        const auto link = path_of_descriptor(static_cast<int>(argument(registers_, call->descriptor)));
        return std::filesystem::read_symlink(link, gone).string();
    }
    return text_at(argument(registers_, call->path));
}

std::string SystemCall::text_at(unsigned long long address) const {
    const int memory = open(cat("/proc/", thread_, "/mem").c_str(), O_RDONLY | O_CLOEXEC);
    std::array<char, 512> bytes{};
    const ssize_t got = pread(memory, bytes.data(), bytes.size() - 1, static_cast<off_t>(address));
    close(memory);
    return got > 0 ? std::string(bytes.data()) : "?";
}

std::vector<sock_filter> filter_of_changes() {
    const auto calls = static_cast<unsigned char>(kKnownCalls.size());
    const auto allow = [&](int before) { return static_cast<unsigned char>(calls + before); };
    std::vector<sock_filter> filter = {
        statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
        jump_if_equal(AUDIT_ARCH_X86_64, 0, allow(4)),
        statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        // Most files are opened to be read: each stop less is a wait less.
        jump_if_equal(SYS_openat, 0, 2),
        statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
        {.code = BPF_JMP | BPF_JSET | BPF_K, .jt = allow(1), .jf = allow(0), .k = O_CREAT | O_TRUNC},
    };
    for (unsigned char i = 0; i < calls; ++i) {
        filter.push_back(
            jump_if_equal(static_cast<unsigned int>(kKnownCalls[i].number), static_cast<unsigned char>(calls - i), 0));
    }
    filter.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    filter.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_TRACE));
    return filter;
}

std::vector<sock_filter> filter_of_all_calls() {
    return {statement(BPF_RET | BPF_K, SECCOMP_RET_TRACE)};
}

}  // namespace accrue::soaking
