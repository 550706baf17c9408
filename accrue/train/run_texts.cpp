#include "accrue/train/run_texts.h"

#include <fmt/format.h>

#include "accrue/base/error.h"
#include "accrue/train/settings_words.h"

namespace accrue {

std::string window_text(const Settings& settings) {
    return settings.window.tokens > 0 ? fmt::format("{} tokens", settings.window.tokens)
                                      : fmt::format("{} samples", settings.window.samples);
}

std::string formats_text(const Settings& settings) {
    const MomentFormat moments = settings.optimizer.moments;
    return cat("sums ", word_of(settings.compute.sums),
               moments == MomentFormat::fp32 ? "" : cat(", moments ", word_of(moments)));
}

std::string fresh_weights_text(const std::filesystem::path& folder) {
    const bool has_weights = std::filesystem::exists(folder / "model.safetensors") ||
                             std::filesystem::exists(folder / "model.safetensors.index.json");
    return cat(folder.string(), has_weights ? " has weights, but model.weights is \"fresh\"" : " has no weights",
               ": starting from fresh ones");
}

decltype(ReportFacts::facts) facts_of(const RunInputs& inputs, const Engine& engine, const std::string& device) {
    const Settings& settings = inputs.settings;
    return {{"Model", name_of(settings.model)},
            {"Parameters", std::to_string(engine.model->parameters().elements())},
            {"Window", window_text(settings)},
            {"Grain", fmt::format("{} sample(s)", settings.window.grain_samples)},
            {"Sequence", fmt::format("up to {} tokens", inputs.longest_sample())},
            {"Optimizer", fmt::format("{}, rate {:g}", word_of(settings.optimizer.name), engine.rules.rate)},
            {"Numbers", fmt::format("{}, {}", word_of(settings.compute.dtype), formats_text(settings))},
            {"Device", device},
            {"Seed", std::to_string(settings.run.seed)}};
}

}  // namespace accrue
