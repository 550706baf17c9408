#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "accrue/model/model_spec.h"
#include "accrue/train/settings.h"

namespace accrue {

// What a run will take from its arena, found by running the real step on a device that computes nothing.
struct ArenaPlan {
    int64_t resident_bytes = 0;  // weights, copy, sums, moments, tables
    int64_t peak_bytes = 0;      // with one micro-batch of the longest samples, an update and an evaluation
    int64_t flops = 0;           // of that micro-batch, its probe and the update
};

[[nodiscard]] ArenaPlan plan_arena(const Settings& settings, const std::shared_ptr<const ModelSpec>& model,
                                   int64_t longest_sample, int threads);
// The same with other choices than those of the settings.
[[nodiscard]] ArenaPlan plan_arena(const Settings& settings, const std::shared_ptr<const ModelSpec>& model,
                                   int64_t longest_sample, int threads, const Choices& choices);

// What this process can still take; nothing where the system does not say.
[[nodiscard]] std::optional<int64_t> available_memory();

// A plan that does not fit is refused before anything is computed: the message says what it needs and what there is.
void check_memory(const ArenaPlan& plan, int64_t available_bytes);

}  // namespace accrue
