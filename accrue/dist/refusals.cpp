#include "accrue/dist/refusals.h"

#include <algorithm>
#include <utility>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// Of lines, and of names: more than any team has.
constexpr size_t kMostNamed = 1000;
constexpr size_t kMostKnown = 100'000;

bool is_power_of_ten(int64_t number) {
    while (number % 10 == 0) {
        number /= 10;
    }
    return number == 1;
}

// gRPC writes the brackets of an IPv6 address as it does in a URL.
std::string with_brackets(std::string text) {
    for (const auto& [code, letter] : {std::pair{"%5B", "["}, std::pair{"%5D", "]"}}) {
        if (const size_t place = text.find(code); place != std::string::npos) {
            text.replace(place, 3, letter);
        }
    }
    return text;
}

}  // namespace

std::string machine_of(const std::string& peer) {
    const size_t kind = peer.find(':');
    const size_t port = peer.rfind(':');
    return kind == std::string::npos || port <= kind ? peer : with_brackets(peer.substr(kind + 1, port - kind - 1));
}

void Refusals::note(const std::string& peer, const std::string& why) {
    const std::string line = cat("refused a call from ", machine_of(peer), ": ", why);
    const std::lock_guard lock(mutex_);
    const bool is_named = times_.contains(line) || times_.size() < kMostNamed;
    const std::string& told = is_named ? line : "calls of many others were refused too, which are not named any more";
    const int64_t times = ++times_[told];
    if (is_power_of_ten(times)) {
        lines_.push_back(times == 1 ? told : cat(told, " (", times, " times so far)"));
    }
}

std::vector<std::string> Refusals::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
}

bool JoinLimit::admits(const std::string& worker, double now) {
    const std::lock_guard lock(mutex_);
    if (known_.contains(worker)) {
        return true;
    }
    left_ = std::min(per_second_, left_ + (last_ > 0 ? (now - last_) * per_second_ : 0));
    last_ = now;
    if (left_ < 1) {
        return false;
    }
    left_ -= 1;
    if (known_.size() >= kMostKnown) {
        known_.clear();
    }
    known_.insert(worker);
    return true;
}

}  // namespace accrue
