#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "accrue/base/words.h"
#include "accrue/kernels/device_kind.h"
#include "accrue/train/settings.h"

namespace accrue {

// The words of run.toml: a new one is a line here. Checkpoints and result files hold them too, so none may change.

// Where a setting may be left open.
inline constexpr std::string_view kAuto = "auto";

[[nodiscard]] constexpr auto words_for(InitialWeights) {
    return std::to_array<Word<InitialWeights>>({{"fresh", InitialWeights::fresh}, {"loaded", InitialWeights::loaded}});
}

[[nodiscard]] constexpr auto words_for(SampleOrder::Kind) {
    return std::to_array<Word<SampleOrder::Kind>>(
        {{"shuffled", SampleOrder::Kind::shuffled}, {"sequential", SampleOrder::Kind::sequential}});
}

[[nodiscard]] constexpr auto words_for(Layout) {
    return std::to_array<Word<Layout>>({{"packed", Layout::packed}, {"padded", Layout::padded}});
}

[[nodiscard]] constexpr auto words_for(WindowSize::Last) {
    return std::to_array<Word<WindowSize::Last>>(
        {{"short", WindowSize::Last::kept}, {"drop", WindowSize::Last::dropped}});
}

[[nodiscard]] constexpr auto words_for(OptimizerKind) {
    return std::to_array<Word<OptimizerKind>>({{"adamw", OptimizerKind::adamw}, {"sgd", OptimizerKind::sgd}});
}

[[nodiscard]] constexpr auto words_for(RateRule) {
    return std::to_array<Word<RateRule>>(
        {{"none", RateRule::none}, {"sqrt", RateRule::sqrt}, {"linear", RateRule::linear}});
}

[[nodiscard]] constexpr auto words_for(MomentFormat) {
    return std::to_array<Word<MomentFormat>>({{"fp32", MomentFormat::fp32}, {"8bit", MomentFormat::eight_bits}});
}

[[nodiscard]] constexpr auto words_for(Schedule::Kind) {
    return std::to_array<Word<Schedule::Kind>>({{"constant", Schedule::Kind::constant},
                                                {"linear", Schedule::Kind::linear},
                                                {"cosine", Schedule::Kind::cosine},
                                                {"wsd", Schedule::Kind::wsd}});
}

[[nodiscard]] constexpr auto words_for(DType) {
    return std::to_array<Word<DType>>({{name_of(DType::bf16), DType::bf16},
                                       {name_of(DType::fp32), DType::fp32},
                                       {name_of(DType::fp16), DType::fp16}});
}

[[nodiscard]] constexpr auto words_for(SumKind) {
    return std::to_array<Word<SumKind>>({{"exact", SumKind::exact},
                                         {"fp32", SumKind::fp32},
                                         {"bf16", SumKind::bf16},
                                         {"bf16-stochastic", SumKind::bf16_stochastic},
                                         {"bf16-kahan", SumKind::bf16_kahan}});
}

[[nodiscard]] constexpr auto words_for(HostState) {
    return std::to_array<Word<HostState>>(
        {{"none", HostState::none}, {"moments", HostState::moments}, {"sums", HostState::sums}});
}

[[nodiscard]] constexpr auto words_for(WorkersState) {
    return std::to_array<Word<WorkersState>>(
        {{"shared", WorkersState::shared}, {"everywhere", WorkersState::everywhere}});
}

// Of a setting that may be left open.
template <class Value>
[[nodiscard]] constexpr std::string_view word_of(const std::optional<Value>& value) {
    return value ? word_of(*value) : kAuto;
}

}  // namespace accrue
