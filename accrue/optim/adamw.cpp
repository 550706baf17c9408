#include "accrue/optim/adamw.h"

namespace accrue {

AdamW::AdamW(const Options& options, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels,
             Arena& memory)
    : options_(options),
      tensors_(std::move(tensors)),
      kernels_(kernels),
      first_(options.moments, tensors_, flat_elements, kernels, memory),
      second_(options.moments, tensors_, flat_elements, kernels, memory) {}

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
        const OptimizedTensor& place = tensors_[tensor];
        numbers.decay = place.decays ? static_cast<float>(options_.weight_decay) : 0.0F;
        const MeanView mean = gradient.of(static_cast<int64_t>(tensor));
        const View<float> master = weights.master.slice_columns(place.offset, place.elements);
        const AnyView copy =
            weights.copy.empty() ? AnyView() : weights.copy.slice_columns(place.offset, place.elements);
        if (options_.moments == MomentFormat::fp32) {
            kernels_.run(op::UpdateAdamW{.gradient = mean,
                                         .settings = numbers,
                                         .weights = master,
                                         .first_moment = first_.values_of(tensor),
                                         .second_moment = second_.values_of(tensor),
                                         .copy = copy});
        } else {
            kernels_.run(op::UpdateAdamW8Bit{.gradient = mean,
                                             .settings = numbers,
                                             .weights = master,
                                             .moments = {.first = first_.codes_of(tensor),
                                                         .second = second_.codes_of(tensor),
                                                         .rounding_key = rounding_key(options_.rounding_seed, tensor)},
                                             .copy = copy});
        }
    }
}

std::vector<StoredMoment> AdamW::moments() {
    return {first_.stored("first_moment"), second_.stored("second_moment")};
}

}  // namespace accrue
