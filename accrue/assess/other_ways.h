#pragma once

#include <functional>
#include <string>
#include <vector>

#include "accrue/assess/window_lab.h"

namespace accrue {

// A way to compute a window that must not matter, or matters only to sums that promise nothing else.
struct OtherWay {
    enum class Promise { all_sums, exact_sums };

    std::string name;
    Promise promise = Promise::all_sums;
    std::function<Computed()> compute;  // none: cannot be tried, and the name says why
};

// How the reference is computed: all grains at once, or as many as fit into memory.
[[nodiscard]] std::string whole_name(const WindowLab& lab);

// Cuts, orders, workers, a stop half way, threads, and what is recomputed. The lab must outlive them.
[[nodiscard]] std::vector<OtherWay> other_ways(WindowLab& lab, const Settings& settings, int64_t layers);

}  // namespace accrue
