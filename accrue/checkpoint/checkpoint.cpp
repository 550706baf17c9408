#include "accrue/checkpoint/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/hash.h"
#include "accrue/checkpoint/manifest.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStateName = "state.json";
constexpr std::string_view kEnding = ".safetensors";
constexpr std::string_view kStep = "step-";
constexpr std::string_view kPartial = ".partial";    // being written, or on its way out
constexpr std::string_view kReplaced = ".replaced";  // the older one of two with the same step

fs::path aside(const fs::path& folder, int64_t step, std::string_view suffix) {
    return folder / cat(".", kStep, step, suffix);
}

// N of "step-N", written as this file writes it.
std::optional<int64_t> step_of(std::string_view name) {
    if (!name.starts_with(kStep)) {
        return std::nullopt;
    }
    name.remove_prefix(kStep.size());
    int64_t step = 0;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), step);
    const bool same = fault == std::errc() && step >= 0 && std::to_string(step) == name;
    return same ? std::optional(step) : std::nullopt;
}

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

void remove_tree(const fs::path& path) {
    std::error_code fault;
    fs::remove_all(path, fault);
    if (fault) {
        throw Error(cat("cannot remove ", path.string(), ": ", fault.message()));
    }
}

void make_folder(const fs::path& folder) {
    std::error_code fault;
    const bool made = fs::create_directories(folder, fault);
    if (fault) {
        throw Error(cat("cannot make the folder ", folder.string(), ": ", fault.message()));
    }
    if (made) {
        sync_folder(folder.has_parent_path() ? folder.parent_path() : fs::path("."));
    }
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
    std::error_code fault;
    fs::rename(from, to, fault);
    if (fault) {
        throw Error(cat("cannot rename ", from.string(), " to ", to.string(), ": ", fault.message()));
    }
}

std::vector<fs::path> entries_of(const fs::path& folder) {
    std::vector<fs::path> entries;
    std::error_code fault;
    for (fs::directory_iterator entry(folder, fault); !fault && entry != fs::directory_iterator();
         entry.increment(fault)) {
        entries.push_back(entry->path());
    }
    return entries;
}

// Clears up after a writer that was killed: half a checkpoint goes; a replaced one comes back if nothing took its
// place.
void settle(const fs::path& folder) {
    for (const fs::path& entry : entries_of(folder)) {
        const std::string name = entry.filename().string();
        const bool hidden = name.starts_with(cat(".", kStep));
        if (hidden && name.ends_with(kReplaced)) {
            const fs::path place = folder / name.substr(1, name.size() - 1 - kReplaced.size());
            if (is_there(place)) {
                remove_tree(entry);
            } else {
                rename_or_fail(entry, place);
            }
        } else if (hidden && name.ends_with(kPartial)) {
            remove_tree(entry);
        }
    }
}

void write_files(const fs::path& partial, const std::vector<CheckpointFile>& files, const std::string& state_json) {
    Manifest manifest;
    for (const CheckpointFile& file : files) {
        const std::string name = cat(file.name, kEnding);
        if (manifest.files.contains(name)) {
            throw Error(cat("a checkpoint was given two files named ", name));
        }
        const std::string checksum = write_safetensors(partial / name, file.tensors);
        manifest.files[name] = {InputFile(partial / name).size(), checksum};
    }
    const auto put = [&](std::string_view name, std::string_view text) {
        OutputFile file(partial / name);
        file.write(text);
        file.close_synced();
    };
    put(kStateName, state_json);
    manifest.files[std::string(kStateName)] = {static_cast<int64_t>(state_json.size()),
                                               hash_of(std::as_bytes(std::span(state_json)))};
    put(kManifestName, to_json(manifest));
    sync_folder(partial);
}

// Puts a complete partial folder in its place. Linux can exchange two folders in one step; where a file system cannot,
// the older one stands aside for a moment, and settle() brings it back if that moment is the last.
void move_into_place(const fs::path& folder, int64_t step, const fs::path& partial) {
    const fs::path place = checkpoint_path(folder, step);
    if (!is_there(place)) {
        rename_or_fail(partial, place);
    } else if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) != 0) {
        const fs::path replaced = aside(folder, step, kReplaced);
        rename_or_fail(place, replaced);
        try {
            rename_or_fail(partial, place);
        } catch (const Error&) {
            rename_or_fail(replaced, place);
            throw;
        }
    }
    sync_folder(folder);
    // What was exchanged or stands aside is the older one now; if it cannot be removed, the next write tries again.
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    fs::remove_all(aside(folder, step, kReplaced), ignored);
}

Manifest manifest_of(const fs::path& checkpoint) {
    std::optional<Manifest> manifest = read_manifest(checkpoint);
    if (!manifest) {
        throw Error(cat("checkpoint ", checkpoint.string(), " is not whole: it has no ", kManifestName,
                        " that can be read; delete it to go on from the one before"));
    }
    return std::move(*manifest);
}

// The checksum of a file, read in pieces.
std::string checksum_of(const InputFile& file) {
    std::vector<std::byte> piece(static_cast<size_t>(std::min<int64_t>(file.size(), int64_t{4} << 20)));
    Hasher hasher;
    for (int64_t place = 0; place < file.size(); place += static_cast<int64_t>(piece.size())) {
        const auto part = std::span(piece).first(std::min(piece.size(), static_cast<size_t>(file.size() - place)));
        file.read(place, part);
        hasher.add(part);
    }
    return hasher.digest();
}

// An error that says which file is not what the manifest says.
void check_file(const fs::path& checkpoint, const std::string& name, const Manifest::File& expected) {
    const auto damaged = [&](const std::string& what) {
        throw Error(cat("checkpoint ", checkpoint.string(), " is damaged: file ", name, " ", what,
                        "; delete it to go on from the one before"));
    };
    if (!is_there(checkpoint / name)) {
        damaged("is missing");
    }
    const InputFile file(checkpoint / name);
    if (file.size() != expected.bytes) {
        damaged(cat("has ", file.size(), " bytes, manifest says ", expected.bytes));
    }
    const std::string checksum = checksum_of(file);
    if (checksum != expected.checksum) {
        damaged(cat("has checksum ", checksum, ", manifest says ", expected.checksum));
    }
}

}  // namespace

fs::path checkpoint_path(const fs::path& folder, int64_t step) {
    return folder / cat(kStep, step);
}

void write_checkpoint(const fs::path& folder, int64_t step, const std::vector<CheckpointFile>& files,
                      const std::string& state_json) {
    make_folder(folder);
    settle(folder);
    const fs::path partial = aside(folder, step, kPartial);
    try {
        make_folder(partial);
        write_files(partial, files, state_json);
        move_into_place(folder, step, partial);
    } catch (...) {
        std::error_code ignored;
        fs::remove_all(partial, ignored);
        throw;
    }
}

std::vector<int64_t> list_checkpoints(const fs::path& folder) {
    std::vector<int64_t> steps;
    for (const fs::path& entry : entries_of(folder)) {
        const std::optional<int64_t> step = step_of(entry.filename().string());
        const std::optional<Manifest> manifest = step ? read_manifest(entry) : std::nullopt;
        if (manifest && has_its_files(entry, *manifest)) {
            steps.push_back(*step);
        }
    }
    std::sort(steps.begin(), steps.end());
    return steps;
}

void remove_old_checkpoints(const fs::path& folder, int64_t keep) {
    std::vector<int64_t> steps = list_checkpoints(folder);
    const auto kept = static_cast<size_t>(std::max<int64_t>(keep, 1));
    for (size_t i = 0; i + kept < steps.size(); ++i) {
        // Renamed first, so that a removal that is interrupted leaves nothing that looks like a checkpoint.
        const fs::path leaving = aside(folder, steps[i], kPartial);
        remove_tree(leaving);
        rename_or_fail(checkpoint_path(folder, steps[i]), leaving);
        remove_tree(leaving);
    }
}

std::string read_checkpoint_state(const fs::path& checkpoint) {
    const Manifest manifest = manifest_of(checkpoint);
    const auto expected = manifest.files.find(std::string(kStateName));
    check_file(checkpoint, std::string(kStateName),
               expected == manifest.files.end() ? Manifest::File{} : expected->second);
    return read_text(checkpoint / kStateName);
}

CheckpointReader::CheckpointReader(const fs::path& checkpoint) : path_(checkpoint) {
    for (const auto& [name, expected] : manifest_of(checkpoint).files) {
        check_file(checkpoint, name, expected);
        if (name.ends_with(kEnding)) {
            files_.emplace(name.substr(0, name.size() - kEnding.size()), SafetensorsFile(checkpoint / name));
        }
    }
    state_json_ = read_text(checkpoint / kStateName);
}

const SafetensorsFile& CheckpointReader::file(const std::string& name) const {
    const auto found = files_.find(name);
    if (found != files_.end()) {
        return found->second;
    }
    std::string names;
    for (const auto& [known, file] : files_) {
        names += (names.empty() ? "" : ", ") + known;
    }
    throw Error(
        cat("checkpoint ", path_.string(), " has no file ", name, ". It has: ", names.empty() ? "none" : names));
}

}  // namespace accrue
