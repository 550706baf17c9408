#include "accrue/train/newest_checkpoint.h"

#include "accrue/base/error.h"

namespace accrue {
namespace {

std::string all_damaged_text(const std::filesystem::path& checkpoints, const std::vector<CheckpointEntry>& damaged) {
    std::string names;
    for (const CheckpointEntry& entry : damaged) {
        names += cat(names.empty() ? "" : ", ", "step-", entry.step, " (", *entry.damage, ")");
    }
    return cat(
        "no checkpoint in ", checkpoints.string(), " can be used, because each is damaged: ", names,
        ". Put back a copy of one of them; or, to train from the beginning, delete that folder or move it away.");
}

}  // namespace

std::optional<CheckpointReader> open_newest_checkpoint(const std::filesystem::path& checkpoints,
                                                       const std::function<void(const std::string&)>& note,
                                                       const LongWork& work) {
    std::vector<CheckpointEntry> entries = survey_checkpoints(checkpoints);
    if (entries.empty()) {
        return std::nullopt;
    }
    std::vector<CheckpointEntry> damaged;  // the newest first
    for (; !entries.empty(); entries.pop_back()) {
        CheckpointEntry& entry = entries.back();
        const std::filesystem::path path = checkpoint_path(checkpoints, entry.step);
        entry.damage = entry.damage ? entry.damage : damage_of(path, work);
        if (!entry.damage) {
            for (const CheckpointEntry& newer : damaged) {
                note(cat("checkpoint ", checkpoint_path(checkpoints, newer.step).string(), " is damaged: ",
                         *newer.damage, ". Step ", entry.step, " is used instead; the damaged one is left as it is, ",
                         "and replaced when the run comes to step ", newer.step, " again."));
            }
            return CheckpointReader::undamaged(path);
        }
        damaged.push_back(std::move(entry));
    }
    throw Error(all_damaged_text(checkpoints, damaged));
}

}  // namespace accrue
