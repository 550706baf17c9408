#include "accrue/train/load_ahead.h"

#include <algorithm>

namespace accrue {

// Of a next window the announcement may name more grains than there are.
LoadAhead::Request LoadAhead::request_of(const Window& window, const LikelyGrains& next) const {
    if (next.window == LikelyGrains::Of::this_window) {
        return {.window = window, .grains = next.grains};
    }
    Request request{.window = window_from_(window.next()), .grains = {}};
    std::copy_if(next.grains.begin(), next.grains.end(), std::back_inserter(request.grains),
                 [&](int64_t grain) { return grain < request.window.grains(); });
    return request;
}

TokenBatch LoadAhead::load(const Window& window, std::span<const int64_t> grains) const {
    const Request request{.window = window, .grains = {grains.begin(), grains.end()}};
    if (ahead_.valid()) {
        try {
            Loaded loaded = ahead_.get();
            if (loaded.request == request) {
                return std::move(loaded.batch);
            }
        } catch (const std::exception&) {
            // Perhaps a guess that nobody wants. If it is wanted, the load below fails again and says so.
        }
    }
    return data().load(request.window, request.grains);
}

void LoadAhead::announce(const Window& window, const LikelyGrains& next) const {
    ahead_ = std::async(std::launch::async, [this, window, next]() -> Loaded {
        Request request = request_of(window, next);
        TokenBatch batch = data().load(request.window, request.grains);
        return {.request = std::move(request), .batch = std::move(batch)};
    });
}

}  // namespace accrue
