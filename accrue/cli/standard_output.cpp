#include "accrue/cli/standard_output.h"

#include <cerrno>
#include <cstdio>

#include <poll.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"

namespace accrue {
namespace {

bool is_reader_gone(int error) {
    pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
    const bool is_closed = poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
    return error == EPIPE || error == EIO || is_closed;  // EIO: a terminal that was closed
}

}  // namespace

void output_failed(int error) {
    if (is_reader_gone(error)) {
        throw OutputClosed();
    }
    throw Error(cat(
        "the output could not be written: ", error == 0 ? "a part of it was lost" : write_failure_text(error), "."));
}

void flush_output() {
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        output_failed(errno);
    }
}

}  // namespace accrue
