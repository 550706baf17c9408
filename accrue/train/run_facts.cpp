#include "accrue/train/run_facts.h"

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/train/stored_window.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

// Where no scale is told, losses were not scaled, or go on with the scale that a run begins with.
LossScale stored_loss_scale(const Json& facts, const LossScale& otherwise, const std::string& where) {
    if (!facts.contains("loss_scale")) {
        return otherwise;
    }
    const Json& stored = facts.at("loss_scale");
    const LossScale scale{.value = stored.at("value"), .good_windows = stored.at("good_windows")};
    if (!LossScale::is_possible(scale.value)) {
        throw Error(cat(where, " has the loss scale ", scale.value, ", which is no power of two from ",
                        LossScale::kSmallest, " to ", LossScale::kLargest, "."));
    }
    return scale;
}

}  // namespace

Json facts_json(const Engine& engine) {
    const Engine::State& state = engine.state;
    const Optimizer::Counters& counters = engine.optimizer->counters();
    Json facts = {{"step", state.step},
                  {"epoch", state.position.epoch},
                  {"place", state.position.place},
                  {"tokens", state.tokens},
                  {"skipped_in_a_row", state.skipped_in_a_row},
                  {"units", state.units.exponents()},
                  {"window", stored_window(engine)},
                  {"updates", counters.updates},
                  {"beta1_power", counters.beta1_power},
                  {"beta2_power", counters.beta2_power}};
    if (engine.rules.loss_scale_steps > 0) {
        facts["loss_scale"] = {{"value", state.loss_scale.value}, {"good_windows", state.loss_scale.good_windows}};
    }
    return facts;
}

void restore_facts(Engine& engine, const Json& facts, const std::string& where) {
    const LossScale loss_scale = stored_loss_scale(facts, engine.state.loss_scale, where);
    engine.optimizer->restore({.updates = facts.at("updates"),
                               .beta1_power = facts.at("beta1_power"),
                               .beta2_power = facts.at("beta2_power")});
    engine.state = {.step = facts.at("step"),
                    .position = {.epoch = facts.at("epoch"), .place = facts.at("place")},
                    .units = Units(facts.at("units").get<std::vector<int32_t>>()),
                    .skipped_in_a_row = facts.at("skipped_in_a_row"),
                    .tokens = facts.at("tokens"),
                    .loss_scale = loss_scale};
}

}  // namespace accrue
