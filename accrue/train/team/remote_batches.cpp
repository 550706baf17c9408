#include "accrue/train/team/remote_batches.h"

#include "accrue/train/team/packet.h"

namespace accrue {

TokenBatch RemoteBatches::load(const Window& window, std::span<const int64_t> grains) const {
    const BatchQuestion question{.window = window, .grains = {grains.begin(), grains.end()}};
    return batch_of(decoded(link_.ask("batch", encoded(packet_of(question)))));
}

int64_t RemoteBatches::counted_tokens(const Window& window) const {
    return number_of(decoded(link_.ask("tokens", encoded({.words = {{"window", json_of(window)}}}))), "tokens");
}

Window RemoteBatches::window_from(const DataPosition& position) const {
    return window_of(decoded(link_.ask("window", encoded({.words = {{"from", json_of(position)}}}))).words);
}

}  // namespace accrue
