#include "accrue/cli/signals.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

using Doing = RunWatch::Doing;

// A signal handler can reach nothing but globals.
StopFlag g_stop{false};
static_assert(StopFlag::is_always_lock_free);
std::atomic<int> g_signal = 0;  // the first
std::atomic<const RunWatch*> g_watch = nullptr;
std::atomic<bool> g_is_terminal = false;
std::array<char, 8192> g_go_on{};  // how to continue; complete once it has a length
std::atomic<size_t> g_go_on_length = 0;

// A text put together without memory from the heap, which a handler may not ask for.
class HandlerText {
public:
    HandlerText& operator<<(std::string_view text) {
        const size_t count = std::min(text.size(), text_.size() - length_);
        std::copy_n(text.begin(), count, text_.begin() + static_cast<std::ptrdiff_t>(length_));
        length_ += count;
        return *this;
    }
    HandlerText& operator<<(int64_t number) {
        std::array<char, 24> digits{};
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
        return *this << std::string_view(digits.data(), static_cast<size_t>(end - digits.data()));
    }
    // " (about 2 s)", or nothing where nobody can know.
    HandlerText& estimate(int64_t milliseconds) {
        if (milliseconds < 0) {
            return *this;
        }
        if (milliseconds < 1000) {
            return *this << " (under 1 s)";
        }
        const int64_t seconds = (milliseconds + 500) / 1000;
        constexpr int64_t kReadableSeconds = 120;
        return seconds < kReadableSeconds ? *this << " (about " << seconds << " s)"
                                          : *this << " (about " << (seconds + 30) / 60 << " min)";
    }
    void write() const {
        const ssize_t ignored = ::write(STDERR_FILENO, text_.data(), length_);
        (void)ignored;  // nobody is left to hear of it
    }

private:
    std::array<char, 10240> text_{};
    size_t length_ = 0;
};

// A bar may stand in the line, and the terminal has put ^C behind it.
std::string_view line_start() {
    return g_is_terminal ? "\r\x1b[K" : "";
}

void say_what_happens(const RunWatch& watch) {
    HandlerText text;
    text << line_start();
    switch (watch.doing.load()) {
        case Doing::starting:
            text << "Stopping: the start is finished first; nothing has to be saved.";
            break;
        case Doing::tokenizing:
            text << "Stopping: tokenizing is left in a moment; nothing has to be saved.";
            break;
        case Doing::adding:
            text << "Stopping: finishing this micro-batch";
            text.estimate(watch.micro_batch_milliseconds) << ", then saving a checkpoint";
            text.estimate(watch.checkpoint_milliseconds) << ".";
            break;
        case Doing::evaluating:
            text
                << "Stopping: leaving the validation, which is repeated when the run goes on, then saving a checkpoint";
            text.estimate(watch.checkpoint_milliseconds) << ".";
            break;
        case Doing::saving:
            text << "Stopping: the checkpoint is saved";
            text.estimate(watch.checkpoint_milliseconds) << " to its end first.";
            break;
        case Doing::finishing:
            text << "All steps are done: the model is written to its end first.\n";
            text.write();
            return;
    }
    text << "\nPress Ctrl-C again to stop at once without saving.\n";
    text.write();
}

void say_how_to_go_on(const RunWatch& watch) {
    HandlerText text;
    text << line_start() << "Stopped at once; nothing was saved";
    if (watch.saved_step >= 0) {
        text << " since step " << watch.saved_step;
    }
    text << ".\n" << std::string_view(g_go_on.data(), g_go_on_length) << "\n";
    text.write();
}

void request_stop(int signal) {
    const int error = errno;
    const bool is_first = !g_stop.exchange(true);
    const RunWatch* watch = g_watch;
    if (is_first) {
        g_signal = signal;
        if (watch != nullptr) {
            say_what_happens(*watch);
        }
    } else if (signal == SIGINT) {
        if (watch != nullptr) {
            say_how_to_go_on(*watch);
        }
        std::signal(SIGINT, SIG_DFL);
        (void)raise(SIGINT);  // delivered when this handler returns: shells then know that it was Ctrl-C
    }
    errno = error;
}

void handle(int signal) {
    struct sigaction action {};
    action.sa_handler = request_stop;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (const int other : {SIGINT, SIGTERM, SIGHUP}) {
        sigaddset(&action.sa_mask, other);
    }
    sigaction(signal, &action, nullptr);
}

bool is_ignored(int signal) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    return action.sa_handler == SIG_IGN;
}

void set_go_on(std::string_view text) {
    g_go_on_length = 0;
    const size_t length = std::min(text.size(), g_go_on.size());
    std::copy_n(text.begin(), length, g_go_on.begin());
    g_go_on_length = length;
}

}  // namespace

void turn_signals_into_errors() {
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
}

const StopFlag& stop_on_signals() {
    handle(SIGINT);
    handle(SIGTERM);
    if (!is_ignored(SIGHUP)) {
        handle(SIGHUP);
    }
    return g_stop;
}

void end_by_signal() {
    const int signal = g_signal != 0 ? g_signal.load() : SIGTERM;
    std::signal(signal, SIG_DFL);
    (void)std::raise(signal);
    std::_Exit(128 + signal);
}

StopMessages::StopMessages(const RunWatch& watch) {
    g_is_terminal = isatty(STDERR_FILENO) != 0;
    set_go_on("Start again with the same command.");
    g_watch = &watch;
}

StopMessages::~StopMessages() {
    g_watch = nullptr;
}

void StopMessages::name_run(const std::filesystem::path& folder) {
    set_go_on(cat("Go on with: accrue train --resume ", folder.string()));
}

void ignore_stop_signals() {
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);
}

}  // namespace accrue
