#include "accrue/optim/adamw.h"

namespace accrue {

AdamW::AdamW(const Options& options, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels)
    : options_(options),
      tensors_(std::move(tensors)),
      kernels_(kernels),
      first_(take_matrix<float>(kernels.arena(), 1, flat_elements)),
      second_(take_matrix<float>(kernels.arena(), 1, flat_elements)) {
    kernels_.fill_zero({first_.block.data(), static_cast<size_t>(first_.block.bytes())});
    kernels_.fill_zero({second_.block.data(), static_cast<size_t>(second_.block.bytes())});
}

void AdamW::update(const MeanGradient& gradient, const UpdateSettings& settings, const WeightBuffers& weights) {
    ++counters_.updates;
    counters_.beta1_power *= options_.beta1;
    counters_.beta2_power *= settings.beta2;
    AdamWSettings numbers{.rate = static_cast<float>(settings.rate),
                          .beta1 = static_cast<float>(options_.beta1),
                          .beta2 = static_cast<float>(settings.beta2),
                          .epsilon = static_cast<float>(options_.epsilon),
                          .correction1 = static_cast<float>(1.0 / (1.0 - counters_.beta1_power)),
                          .correction2 = static_cast<float>(1.0 / (1.0 - counters_.beta2_power))};
    for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
        const auto& [offset, elements, decays] = tensors_[tensor];
        numbers.decay = decays ? static_cast<float>(options_.weight_decay) : 0.0F;
        kernels_.adamw(gradient.of(static_cast<int64_t>(tensor)), numbers,
                       weights.master.slice_columns(offset, elements), first_.view.slice_columns(offset, elements),
                       second_.view.slice_columns(offset, elements),
                       weights.copy.empty() ? AnyView() : weights.copy.slice_columns(offset, elements));
    }
}

std::vector<Optimizer::Moment> AdamW::moments() {
    return {{.name = "first_moment", .values = first_.view}, {.name = "second_moment", .values = second_.view}};
}

}  // namespace accrue
