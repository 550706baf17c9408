#include "accrue/cli/train_options.h"

#include "accrue/train/settings.h"

namespace accrue {

void add_train_options(CLI::App& train, TrainCommand& command) {
    train.add_option("settings", command.settings_file, "A TOML file with settings")->type_name("run.toml");
    train.add_option("--set", command.overrides, "Override one setting: --set window.samples=64 (repeatable)")
        ->type_name("SECTION.KEY=VALUE")
        ->allow_extra_args(false);
    train.add_option("--memory", command.memory, "The most the run may hold: 16GiB (the same as compute.memory)")
        ->type_name("SIZE");
    train.add_option("--resume", command.resume, "Continue the run in this folder, bit for bit")->type_name("FOLDER");
    train.add_flag("--overwrite", command.overwrite,
                   "Replace what an earlier run left in run.folder; what this run reads is never replaced");
    train.add_flag("--accept-other-bits", command.accept_other_bits,
                   "With --resume: go on where another machine or version gives other bits, and record that");
}

}  // namespace accrue
