#pragma once

#include <CLI/CLI.hpp>

#include "accrue/cli/commands.h"

namespace accrue {

// What says which run it is and how it begins, for every command that trains.
void add_train_options(CLI::App& train, TrainCommand& command);

}  // namespace accrue
