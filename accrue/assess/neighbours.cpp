#include "accrue/assess/neighbours.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "accrue/accumulate/gradient_probe.h"
#include "accrue/base/random.h"

namespace accrue {
namespace {

// Any will do that is no order somebody may count on.
constexpr uint64_t kShuffle = 7;

GradientProbe make_probe(WindowLab& lab, int64_t samples) {
    std::vector<GradientProbe::Shape> shapes;
    for (const SumTensor& tensor : lab.engine().sum.tensors()) {
        shapes.push_back({.rows = tensor.rows, .columns = tensor.columns});
    }
    return GradientProbe(shapes, samples, lab.engine().kernels, lab.engine().state.loss_scale.value);
}

// What differs between two computations of one sample; nothing if all is the same.
std::optional<NeighbourCheck::Change> change_of(const GrainLedger& alone, const GrainLedger& beside, int64_t sample) {
    NeighbourCheck::Change change{.sample = sample,
                                  .loss_alone = alone.grain(sample).loss_sum,
                                  .loss_beside_others = beside.grain(sample).loss_sum,
                                  .tensor = {}};
    if (!same_loss(alone, beside, sample)) {
        return change;
    }
    for (int64_t tensor = 0; tensor < alone.tensors(); ++tensor) {
        if (!same_record(alone, beside, sample, tensor)) {
            change.tensor = tensor;
            return change;
        }
    }
    return std::nullopt;
}

}  // namespace

NeighbourCheck check_neighbours(WindowLab& lab) {
    const auto start = std::chrono::steady_clock::now();
    lab.begin({});
    Window by_sample = lab.window();
    by_sample.grain_samples = 1;
    std::vector<int64_t> samples(static_cast<size_t>(by_sample.samples));
    std::iota(samples.begin(), samples.end(), 0);
    GradientProbe alone = make_probe(lab, by_sample.samples);
    lab.add(by_sample, samples, 1, alone);
    std::sort(samples.begin(), samples.end(), [](int64_t a, int64_t b) {
        return mix(kShuffle, static_cast<uint64_t>(a)) < mix(kShuffle, static_cast<uint64_t>(b));
    });
    GradientProbe beside = make_probe(lab, by_sample.samples);
    lab.add(by_sample, samples, lab.samples_at_once(), beside);

    NeighbourCheck check{.samples = by_sample.samples, .changed = 0, .first = {}, .seconds = 0};
    for (int64_t sample = 0; sample < by_sample.samples; ++sample) {
        if (auto change = change_of(alone.ledger(), beside.ledger(), sample)) {
            ++check.changed;
            change->sample = lab.loader().samples_of(by_sample, sample).front();
            check.first = check.first ? check.first : change;
        }
    }
    check.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return check;
}

}  // namespace accrue
