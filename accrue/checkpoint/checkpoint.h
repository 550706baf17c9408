#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

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
// and throws an error that names the path. One writer at a time: what a killed one left behind is removed first.
void write_checkpoint(const std::filesystem::path& folder, int64_t step, const std::vector<CheckpointFile>& files,
                      const std::string& state_json);

// The steps of the whole checkpoints in a folder, ascending; whole means that a manifest lists files which all exist
// and have the right sizes. No folder, no steps.
[[nodiscard]] std::vector<int64_t> list_checkpoints(const std::filesystem::path& folder);

// The folder of a step's checkpoint.
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t step);

// Removes whole checkpoints until the newest `keep` are left, at least one. What is not whole stays for a person to
// see.
void remove_old_checkpoints(const std::filesystem::path& folder, int64_t keep);

// The JSON text of a checkpoint alone, its checksum compared; the other files are not looked at.
[[nodiscard]] std::string read_checkpoint_state(const std::filesystem::path& checkpoint);

// A checkpoint opened for reading. Every file is read once and its checksum compared; a difference is an error naming
// it.
class CheckpointReader {
public:
    explicit CheckpointReader(const std::filesystem::path& checkpoint);

    // The JSON text that was given to write_checkpoint.
    [[nodiscard]] const std::string& state_json() const { return state_json_; }
    [[nodiscard]] bool has(const std::string& name) const { return files_.contains(name); }
    // The file of that name, without its ending; an error lists the names there are.
    [[nodiscard]] const SafetensorsFile& file(const std::string& name) const;

private:
    std::filesystem::path path_;
    std::string state_json_;
    std::map<std::string, SafetensorsFile> files_;
};

}  // namespace accrue
