#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accrue/base/long_work.h"
#include "accrue/tensor/safetensors.h"

namespace accrue {

// Named tensors that go into one file, NAME.safetensors, of a checkpoint.
struct CheckpointFile {
    std::string name;
    std::vector<TensorToStore> tensors;
};

// Writes folder/step-N whole or not at all: the files and a JSON text go into folder/.step-N.partial, each synced, then
// a manifest with the size and checksum of every file; then the folder is renamed. An older step-N is replaced. A
// failure (a full disk, a read-only folder) leaves older checkpoints as they were, removes what was partial if it can,
// and throws an error that names the path. One writer at a time: what a killed one left behind is removed first. Each
// file is one thread's; counts bytes.
void write_checkpoint(const std::filesystem::path& folder, int64_t step, const std::vector<CheckpointFile>& files,
                      const std::string& state_json, const LongWork& work = {});

// A step of a folder.
struct CheckpointEntry {
    int64_t step = 0;
    std::optional<std::string> damage;  // what is wrong with it: "file weights.safetensors is missing"
};

// Clears up after a writer that was killed, as write_checkpoint does: half a checkpoint goes, and one that stood aside comes
// back if nothing took its place. One writer at a time.
void settle_checkpoints(const std::filesystem::path& folder);

// All step-N in a folder, ascending, with the damage that shows without reading them: no manifest that can be read, a
// file missing or of another size. No folder, no steps.
[[nodiscard]] std::vector<CheckpointEntry> survey_checkpoints(const std::filesystem::path& folder);

// The steps of those without such damage.
[[nodiscard]] std::vector<int64_t> list_checkpoints(const std::filesystem::path& folder);

// All that can be wrong with a checkpoint, checksums included: every file is read once, each by one thread. Nothing if
// it is as it was written. Counts bytes.
[[nodiscard]] std::optional<std::string> damage_of(const std::filesystem::path& checkpoint, const LongWork& work = {});

// The folder of a step's checkpoint.
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t step);

// Removes whole checkpoints until the newest `keep` are left, at least one. What is not whole stays for a person to
// see; so does what lies behind step `newest`, whatever it is: it pushes nothing out.
void remove_old_checkpoints(const std::filesystem::path& folder, int64_t keep,
                            int64_t newest = std::numeric_limits<int64_t>::max());

// The JSON text of a checkpoint alone, its checksum compared; the other files are not looked at.
[[nodiscard]] std::string read_checkpoint_state(const std::filesystem::path& checkpoint);
// Would that be an error?
[[nodiscard]] bool is_state_damaged(const std::filesystem::path& checkpoint);

// A checkpoint opened for reading. Every file is read once and its checksum compared; a difference is an error naming
// it.
class CheckpointReader {
public:
    explicit CheckpointReader(const std::filesystem::path& checkpoint);
    // One that damage_of() found nothing wrong with, without looking again.
    [[nodiscard]] static CheckpointReader undamaged(const std::filesystem::path& checkpoint);

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    // The JSON text that was given to write_checkpoint.
    [[nodiscard]] const std::string& state_json() const { return state_json_; }
    [[nodiscard]] bool has(const std::string& name) const { return files_.contains(name); }
    // The file of that name, without its ending; an error lists the names there are.
    [[nodiscard]] const SafetensorsFile& file(const std::string& name) const;

private:
    CheckpointReader() = default;
    void open(const std::filesystem::path& checkpoint);

    std::filesystem::path path_;
    std::string state_json_;
    std::map<std::string, SafetensorsFile> files_;
};

}  // namespace accrue
