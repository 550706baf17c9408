#include "accrue/train/load_ahead.h"

#include <algorithm>
#include <numeric>

namespace accrue {

LoadAhead::Request LoadAhead::after(const Request& request) const {
    const int64_t next = request.grains.back() + 1;
    const bool goes_on = next < request.window.grains();
    const Window window = goes_on ? request.window : window_from_(request.window.next());
    const int64_t first = goes_on ? next : 0;
    std::vector<int64_t> grains(static_cast<size_t>(std::min(micro_batch_grains_.load(), window.grains() - first)));
    std::iota(grains.begin(), grains.end(), first);
    return {.window = window, .grains = std::move(grains)};
}

TokenBatch LoadAhead::take(const Request& request) const {
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
    return data_.load(request.window, request.grains);
}

TokenBatch LoadAhead::load(const Window& window, std::span<const int64_t> grains) const {
    const Request request{.window = window, .grains = {grains.begin(), grains.end()}};
    TokenBatch batch = take(request);
    ahead_ = std::async(std::launch::async, [this, request]() -> Loaded {
        Request next = after(request);
        TokenBatch loaded = data_.load(next.window, next.grains);
        return {.request = std::move(next), .batch = std::move(loaded)};
    });
    return batch;
}

}  // namespace accrue
