#include "accrue/optim/sgd.h"

namespace accrue {

Sgd::Sgd(const Options& options, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels)
    : options_(options), tensors_(std::move(tensors)), kernels_(kernels) {
    if (options_.momentum > 0) {
        velocity_.emplace(options_.moments, tensors_, flat_elements, kernels);
    }
}

void Sgd::update(const MeanGradient& gradient, const UpdateSettings& settings, const WeightBuffers& weights) {
    ++counters_.updates;
    SgdSettings numbers{.rate = static_cast<float>(settings.rate),
                        .momentum = static_cast<float>(options_.momentum),
                        .kind = options_.kind};
    for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
        const auto& [offset, elements, decays] = tensors_[tensor];
        numbers.decay = decays ? static_cast<float>(options_.weight_decay) : 0.0F;
        const MeanView mean = gradient.of(static_cast<int64_t>(tensor));
        const View<float> master = weights.master.slice_columns(offset, elements);
        const AnyView copy = weights.copy.empty() ? AnyView() : weights.copy.slice_columns(offset, elements);
        if (velocity_ && options_.moments == MomentFormat::eight_bits) {
            kernels_.sgd_8bit(mean, numbers, master,
                              {.first = velocity_->codes_of(tensor),
                               .second = {},
                               .rounding_key = rounding_key(options_.rounding_seed, tensor)},
                              copy);
        } else {
            kernels_.sgd(mean, numbers, master, velocity_ ? velocity_->values_of(tensor) : View<float>(), copy);
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
