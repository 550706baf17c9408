#pragma once

#include <functional>
#include <optional>

#include "accrue/data/samples/dataset.h"
#include "accrue/model/model.h"
#include "accrue/train/loader.h"
#include "accrue/train/step.h"

namespace accrue {

struct Evaluation {
    double loss = 0;  // mean over counted tokens
    int64_t tokens = 0;
};

// The mean loss over all samples of a dataset, in their order, with so many of them in the layers at a time. The value
// does not depend on that number.
[[nodiscard]] Evaluation evaluate(Model& model, const Weights& weights, const Dataset& data, int64_t samples_at_once);

// The same; nothing if `stop` was set before the end. `told` is called with the samples that are done and all of them.
[[nodiscard]] std::optional<Evaluation> evaluate_unless_stopped(
    Model& model, const Weights& weights, const Dataset& data, int64_t samples_at_once, const StopFlag& stop,
    const std::function<void(int64_t done, int64_t total)>& told = nullptr);

// How long the counted targets of a dataset are as text. A token's bytes may depend on the one before it, so that it is
// decoded together with that.
[[nodiscard]] int64_t counted_bytes(const Dataset& data, const Tokenizer& tokenizer);

}  // namespace accrue
