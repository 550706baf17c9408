#pragma once

#include <nlohmann/json_fwd.hpp>

#include "accrue/tensor/safetensors.h"
#include "accrue/train/engine.h"

namespace accrue {

// The window that is open, in a checkpoint: its record among the values, its ledger among the tensors.

// The record, or null if no grain is in the sums: such a window opens again from what the checkpoint has besides.
[[nodiscard]] nlohmann::ordered_json stored_window(const Engine& engine);
// Is there an open window, and so a file of its sums?
[[nodiscard]] bool has_open_window(const nlohmann::ordered_json& state);

// Fills in what is known of the open window, but not the sums. The engine's step, position and units must be restored already.
void restore_window(Engine& engine, const nlohmann::ordered_json& state, const SafetensorsFile& file);

// The name of the ledger's bytes in the file.
inline constexpr const char* kStoredLedger = "ledger";

}  // namespace accrue
