#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "accrue/train/engine.h"

namespace accrue {

// What a run is between two steps besides weights, moments and sums: counters, position, units, and the record of a window that
// is open with some of its grains done. As JSON for checkpoints and other workers, and back; the record is not taken back,
// because its sums are needed too. `where` names what the facts are from in errors.
[[nodiscard]] nlohmann::ordered_json facts_json(const Engine& engine);
void restore_facts(Engine& engine, const nlohmann::ordered_json& facts, const std::string& where);

}  // namespace accrue
