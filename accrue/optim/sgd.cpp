#include "accrue/optim/sgd.h"

namespace accrue {

Sgd::Sgd(const Options& options, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels,
         Arena& memory)
    : options_(options), tensors_(std::move(tensors)), kernels_(kernels) {
    if (options_.momentum > 0) {
        velocity_.emplace(options_.moments, tensors_, flat_elements, kernels, memory);
    }
}

void Sgd::update(const MeanGradient& gradient, const UpdateSettings& settings, const WeightBuffers& weights) {
    ++counters_.updates;
    SgdSettings numbers{.rate = static_cast<float>(settings.rate),
                        .momentum = static_cast<float>(options_.momentum),
                        .kind = options_.kind};
    for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
        const OptimizedTensor& place = tensors_[tensor];
        numbers.decay = place.decays ? static_cast<float>(options_.weight_decay) : 0.0F;
        const MeanView mean = gradient.of(static_cast<int64_t>(tensor));
        const View<float> master = weights.master.slice_columns(place.offset, place.elements);
        const AnyView copy =
            weights.copy.empty() ? AnyView() : weights.copy.slice_columns(place.offset, place.elements);
        if (velocity_ && options_.moments == MomentFormat::eight_bits) {
            kernels_.run(op::UpdateSgd8Bit{.gradient = mean,
                                           .settings = numbers,
                                           .weights = master,
                                           .moments = {.first = velocity_->codes_of(tensor),
                                                       .second = {},
                                                       .rounding_key = rounding_key(options_.rounding_seed, tensor)},
                                           .copy = copy});
        } else {
            kernels_.run(op::UpdateSgd{.gradient = mean,
                                       .settings = numbers,
                                       .weights = master,
                                       .velocity = velocity_ ? velocity_->values_of(tensor) : View<float>(),
                                       .copy = copy});
        }
    }
}

std::vector<StoredMoment> Sgd::moments() {
    if (!velocity_) {
        return {};
    }
    return {velocity_->stored("velocity")};
}

}  // namespace accrue
