#pragma once

#include "accrue/dist/link.h"
#include "accrue/train/loader.h"

namespace accrue {

// The grains of a run whose data lie with its leader: their tokens come over the link.
class RemoteBatches final : public BatchSource {
public:
    // The link must outlive it.
    explicit RemoteBatches(Link& link) : link_(link) {}

    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override;
    [[nodiscard]] int64_t counted_tokens(const Window& window) const override;
    void announce(const Window& /*window*/, const LikelyGrains& /*next*/) const override {}
    // The window that begins at a position.
    [[nodiscard]] Window window_from(const DataPosition& position) const;

private:
    Link& link_;
};

}  // namespace accrue
