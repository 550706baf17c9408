#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/base/file_lock.h"
#include "accrue/base/output_path.h"
#include "accrue/train/run_folder.h"
#include "accrue/train/settings.h"

namespace accrue {

// Another process works in the folder.
class RunInUse final : public Error {
public:
    using Error::Error;
};

// A run folder that belongs to this process alone, until this object goes or the process ends, however it ends. Nothing in
// it changes before begin(): a claim that is given up leaves the folder as it was, but for the term of who led workers in it.
class RunClaim {
public:
    // For a new run: the folder that the settings name, or the next free runs/N. An error if another process works in it, if
    // it holds anything but what an unfinished start left, or if the run would replace what it reads; `settings_file` is read too.
    [[nodiscard]] static RunClaim of_new_run(const Settings& settings, const std::filesystem::path& settings_file,
                                             Overwrite overwrite);
    // For a run to be continued. An error if there is none, another process works in it, or its checkpoints are gone while its
    // model is still there.
    [[nodiscard]] static RunClaim of_run(const std::filesystem::path& root, Overwrite overwrite);

    RunClaim(RunClaim&& other) noexcept = default;
    RunClaim& operator=(RunClaim&&) = delete;
    ~RunClaim();

    [[nodiscard]] const RunFolder& folder() const { return folder_; }
    // run.toml with overrides on top, of a run to be continued.
    [[nodiscard]] Settings settings(const std::vector<std::string>& overrides) const;
    // Is there a checkpoint to go on from, damaged or not? None at the start of a run.
    [[nodiscard]] bool goes_on() const;

    // The term of this start, which leads workers: `least`, or more if a start before it had that much, so that none of a run has one
    // twice, and later ones have higher ones, whatever clocks say. It is on disk when it is returned.
    [[nodiscard]] int64_t begin_term(int64_t least);

    // Once every check has passed: what is overwritten goes, run.toml is written, and the tokenizer's files are kept beside it.
    void begin(const Settings& settings);

private:
    enum class Kind { new_run, continued };
    RunClaim(RunFolder folder, Kind kind, bool made_folder);

    void refuse_contents() const;

    RunFolder folder_;
    Kind kind_;
    bool made_folder_;
    bool begun_ = false;
    std::unique_ptr<FileLock> lock_;
};

// An error if the run in this folder would replace a file that it reads, or take its own files for data.
void check_inputs_stay(const Settings& settings, const std::filesystem::path& settings_file, const RunFolder& folder);

}  // namespace accrue
