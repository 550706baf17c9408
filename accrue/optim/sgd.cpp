#include "accrue/optim/sgd.h"

namespace accrue {

Sgd::Sgd(const Options& options, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels)
    : options_(options), tensors_(std::move(tensors)), kernels_(kernels) {
    if (options_.momentum > 0) {
        velocity_ = take_matrix<float>(kernels.arena(), 1, flat_elements);
        kernels_.fill_zero({velocity_.block.data(), static_cast<size_t>(velocity_.block.bytes())});
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
        kernels_.sgd(gradient.of(static_cast<int64_t>(tensor)), numbers, weights.master.slice_columns(offset, elements),
                     velocity_.view.empty() ? View<float>() : velocity_.view.slice_columns(offset, elements),
                     weights.copy.empty() ? AnyView() : weights.copy.slice_columns(offset, elements));
    }
}

std::vector<Optimizer::Moment> Sgd::moments() {
    if (velocity_.view.empty()) {
        return {};
    }
    return {{.name = "velocity", .values = velocity_.view}};
}

}  // namespace accrue
