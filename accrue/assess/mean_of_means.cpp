#include "accrue/assess/mean_of_means.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace accrue {
namespace {

constexpr int64_t kWeighedBlock = 4096;
// Gradient-sized buffers of fp32 at a time: together as large as one exact sum.
constexpr size_t kBuffers = 2;

// One cut: how much more (or less) each sample's gradient counts in the mean of means than it should.
struct Cut {
    MeanOfMeans result;
    std::vector<double> excess;  // for each sample of the window
};

// Samples next to each other that every cut treats alike: their gradients can be added before they are weighed.
struct Group {
    std::vector<int64_t> samples;
    std::vector<double> excess;  // for each cut
};

Cut cut_of(const std::vector<int64_t>& sample_tokens, int64_t each) {
    Cut cut;
    const auto samples = std::ssize(sample_tokens);
    const auto total = static_cast<double>(std::accumulate(sample_tokens.begin(), sample_tokens.end(), int64_t{0}));
    for (int64_t first = 0; first < samples; first += each) {
        const auto begin = sample_tokens.begin() + first;
        cut.result.tokens.push_back(std::accumulate(begin, begin + std::min(each, samples - first), int64_t{0}));
    }
    const auto parts = static_cast<double>(cut.result.tokens.size());
    for (int64_t sample = 0; sample < samples; ++sample) {
        const auto tokens = static_cast<double>(cut.result.tokens[static_cast<size_t>(sample / each)]);
        cut.excess.push_back(cut.result.even() ? 0.0 : 1.0 / (parts * tokens) - 1.0 / total);
    }
    return cut;
}

std::vector<Group> groups_of(std::span<const Cut> cuts, int64_t samples) {
    std::vector<Group> groups;
    for (int64_t sample = 0; sample < samples; ++sample) {
        std::vector<double> excess;
        for (const Cut& cut : cuts) {
            excess.push_back(cut.excess[static_cast<size_t>(sample)]);
        }
        if (groups.empty() || groups.back().excess != excess) {
            groups.push_back({.samples = {}, .excess = excess});
        }
        groups.back().samples.push_back(sample);
    }
    return groups;
}

// to += weight * sums, on the device.
void add_weighed(Kernels& kernels, const SumValues& sums, double weight, View<float> to) {
    std::array<double, kWeighedBlock> block{};
    std::array<float, kWeighedBlock> out{};
    for (size_t tensor = 0; tensor < sums.views.size(); ++tensor) {
        const int64_t elements = sums.views[tensor].elements;
        for (int64_t first = 0; first < elements; first += kWeighedBlock) {
            const auto count = static_cast<size_t>(std::min(kWeighedBlock, elements - first));
            const std::span values = std::span(block).first(count);
            const std::span results = std::span(out).first(count);
            float* const place = to.data + sums.tensors[tensor].offset + first;
            sums.read(static_cast<int64_t>(tensor), first, values);
            download(kernels, static_cast<const float*>(place), results);
            for (size_t i = 0; i < count; ++i) {
                results[i] += static_cast<float>(weight * values[i]);
            }
            upload(kernels, std::span<const float>(results), place);
        }
    }
}

// Adds up what a few cuts get wrong, in one pass over the window, and returns each one's loss error and norm.
void measure(WindowLab& lab, std::span<Cut> cuts, const Computed& whole) {
    lab.begin({});
    Engine& engine = lab.engine();
    Window by_sample = lab.window();
    by_sample.grain_samples = 1;
    const auto buffers =
        take_matrix<float>(engine.kernels.arena(), std::ssize(cuts), engine.model->parameters().gradient_elements);
    fill_zero(engine.kernels, buffers.block);
    std::vector<double> loss(cuts.size(), 0.0);
    for (const auto& [samples, excess] : groups_of(cuts, by_sample.samples)) {
        engine.sum.open(by_sample.samples, lab.units(), engine.rounding_seed(), engine.state.loss_scale.value);
        lab.add(by_sample, samples, lab.samples_at_once(), engine.sum);
        const SumValues sums(engine.sum, engine.kernels);
        for (size_t cut = 0; cut < cuts.size(); ++cut) {
            loss[cut] += excess[cut] * engine.sum.ledger().loss_sum();
            add_weighed(engine.kernels, sums, excess[cut], buffers.view.slice_rows(static_cast<int64_t>(cut), 1));
        }
    }
    const double true_loss = whole.step.loss.value_or(NAN);
    for (size_t cut = 0; cut < cuts.size(); ++cut) {
        MeanOfMeans& result = cuts[cut].result;
        result.loss = true_loss + loss[cut];
        result.loss_error = loss[cut] / true_loss;
        result.gradient_error =
            std::sqrt(squares_of(source_of(engine.kernels, buffers.view.slice_rows(static_cast<int64_t>(cut), 1)))) /
            whole.step.grad_norm.value_or(NAN);
    }
}

}  // namespace

bool MeanOfMeans::even() const {
    return std::all_of(tokens.begin(), tokens.end(), [&](int64_t count) { return count == tokens.front(); });
}

std::vector<MeanOfMeans> means_of_means(WindowLab& lab, const std::vector<int64_t>& micro_batch_samples,
                                        const Computed& whole) {
    std::vector<Cut> even;
    std::vector<Cut> uneven;
    const std::vector<int64_t> tokens = lab.sample_tokens();
    for (const int64_t each : micro_batch_samples) {
        Cut cut = cut_of(tokens, each);
        const bool has_empty =
            std::find(cut.result.tokens.begin(), cut.result.tokens.end(), 0) != cut.result.tokens.end();
        cut.result.loss = has_empty ? NAN : whole.step.loss.value_or(NAN);
        cut.result.loss_error = cut.result.gradient_error = has_empty ? NAN : 0.0;
        (cut.result.even() || has_empty ? even : uneven).push_back(std::move(cut));
    }
    for (size_t first = 0; first < uneven.size(); first += kBuffers) {
        measure(lab, std::span(uneven).subspan(first, std::min(kBuffers, uneven.size() - first)), whole);
    }
    even.insert(even.end(), uneven.begin(), uneven.end());
    std::vector<MeanOfMeans> results;
    for (Cut& cut : even) {
        results.push_back(std::move(cut.result));
    }
    std::sort(results.begin(), results.end(),
              [](const MeanOfMeans& a, const MeanOfMeans& b) { return a.tokens.size() < b.tokens.size(); });
    return results;
}

}  // namespace accrue
