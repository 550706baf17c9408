#include "accrue/train/team/remote_batches.h"

#include "accrue/train/team/packet.h"

namespace accrue {

TokenBatch RemoteBatches::load(const Window& window, std::span<const int64_t> grains) const {
    const std::vector<int64_t> numbers(grains.begin(), grains.end());
    return batch_of(
        decoded(link_.ask("batch", encoded({.words = {{"window", json_of(window)}, {"grains", numbers}}}))));
}

int64_t RemoteBatches::counted_tokens(const Window& window) const {
    return decoded(link_.ask("tokens", encoded({.words = {{"window", json_of(window)}}}))).words.at("tokens");
}

Window RemoteBatches::window_from(const DataPosition& position) const {
    return window_of(decoded(link_.ask("window", encoded({.words = {{"from", json_of(position)}}}))).words);
}

}  // namespace accrue
