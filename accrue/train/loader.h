#pragma once

#include <cstdint>
#include <span>

#include "accrue/accumulate/window.h"
#include "accrue/data/samples/dataset.h"
#include "accrue/dist/assignment.h"
#include "accrue/model/model.h"
#include "accrue/train/settings.h"

namespace accrue {

// Where a step's grains come from.
class BatchSource {
public:
    virtual ~BatchSource() = default;
    // The rows of some grains of a window, one behind another.
    [[nodiscard]] virtual TokenBatch load(const Window& window, std::span<const int64_t> grains) const = 0;
    // How many tokens a window counts, without loading it.
    [[nodiscard]] virtual int64_t counted_tokens(const Window& window) const = 0;
    // What is probably loaded after the last load, of that window or of the one behind it, so that it can be prepared.
    virtual void announce(const Window& window, const LikelyGrains& next) const = 0;
};

// Passes on what another source has. Who changes or watches some of it overrides that.
class PassedBatches : public BatchSource {
public:
    // `data` must outlive it.
    explicit PassedBatches(const BatchSource& data) : data_(data) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        return data_.load(window, grains);
    }
    [[nodiscard]] int64_t counted_tokens(const Window& window) const override { return data_.counted_tokens(window); }
    void announce(const Window& window, const LikelyGrains& next) const override { data_.announce(window, next); }

protected:
    [[nodiscard]] const BatchSource& data() const { return data_; }

private:
    const BatchSource& data_;
};

// Grains of a dataset in an order. A grain's rows depend on its samples alone.
class Loader final : public BatchSource {
public:
    Loader(const Dataset& data, SampleOrder order) : data_(data), order_(order) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override;
    [[nodiscard]] int64_t counted_tokens(const Window& window) const override;
    void announce(const Window& /*window*/, const LikelyGrains& /*next*/) const override {}
    // The window that begins at a position.
    [[nodiscard]] Window window_from(const DataPosition& position, const WindowSize& size) const;
    // Which samples of the dataset a grain holds.
    [[nodiscard]] std::vector<int64_t> samples_of(const Window& window, int64_t grain) const;

private:
    const Dataset& data_;
    SampleOrder order_;
};

// The order in which a run takes so many samples.
[[nodiscard]] SampleOrder sample_order_of(const Settings& settings, int64_t samples);

// Made-up grains in which every sample has the same length: the largest shape a run can meet, for planning.
class LongestSamples final : public BatchSource {
public:
    explicit LongestSamples(int64_t sample_tokens) : sample_tokens_(sample_tokens) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override;
    [[nodiscard]] int64_t counted_tokens(const Window& window) const override {
        return window.samples * sample_tokens_;
    }
    void announce(const Window& /*window*/, const LikelyGrains& /*next*/) const override {}

private:
    int64_t sample_tokens_;
};

}  // namespace accrue
