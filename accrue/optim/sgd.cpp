#include "accrue/optim/sgd.h"

namespace accrue {

Sgd::Sgd(const Options& options, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels,
         Arena& memory)
    : Optimizer(KeptMoments(tensors, flat_elements, options.share)),
      options_(options),
      tensors_(std::move(tensors)),
      kernels_(kernels) {
    if (options_.momentum > 0) {
        velocity_.emplace(options_.moments, kept_, kernels, memory);
    }
}

void Sgd::update(const MeanGradient& gradient, const UpdateSettings& settings, const WeightBuffers& weights) {
    ++counters_.updates;
    SgdSettings numbers{.rate = static_cast<float>(settings.rate),
                        .momentum = static_cast<float>(options_.momentum),
                        .kind = options_.kind};
    for (const KeptPiece& piece : kept_.pieces()) {
        const OptimizedTensor& tensor = tensors_[static_cast<size_t>(piece.of.tensor)];
        numbers.decay = tensor.decays ? static_cast<float>(options_.weight_decay) : 0.0F;
        const MeanView mean = mean_of(gradient, piece.of);
        const auto [master, copy] = weights_of(weights, tensor, piece);
        if (velocity_ && options_.moments == MomentFormat::eight_bits) {
            kernels_.run(op::UpdateSgd8Bit{.gradient = mean,
                                           .settings = numbers,
                                           .weights = master,
                                           .moments = {.first = velocity_->codes_of(piece),
                                                       .second = {},
                                                       .rounding_key = rounding_key(options_.rounding_seed, piece.of)},
                                           .copy = copy});
        } else {
            kernels_.run(op::UpdateSgd{.gradient = mean,
                                       .settings = numbers,
                                       .weights = master,
                                       .velocity = velocity_ ? velocity_->values_of(piece) : View<float>(),
                                       .copy = copy});
        }
    }
}

std::vector<StoredMoment> Sgd::moments() {
    if (!velocity_) {
        return {};
    }
    return {velocity_->stored("velocity", kept_)};
}

}  // namespace accrue
