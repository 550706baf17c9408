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
    // What cannot be read must not look like what is not there: a run would begin again.
    if (fault && fault != std::errc::no_such_file_or_directory && fault != std::errc::not_a_directory) {
        throw Error(cat("cannot read the folder ", folder.string(), ": ", fault.message()));
    }
    return entries;
}

int64_t tensor_bytes(const std::vector<CheckpointFile>& files) {
    int64_t bytes = 0;
    for (const CheckpointFile& file : files) {
        for (const TensorToStore& tensor : file.tensors) {
            bytes += tensor.bytes.size();
        }
    }
    return bytes;
}

void write_files(const fs::path& partial, const std::vector<CheckpointFile>& files, const std::string& state_json,
                 const LongWork& work) {
    Manifest manifest;
    for (const CheckpointFile& file : files) {
        const std::string name = cat(file.name, kEnding);
        if (!manifest.files.emplace(name, Manifest::File{}).second) {
            throw Error(cat("a checkpoint was given two files named ", name));
        }
    }
    WorkCount count(work, tensor_bytes(files));
    work.run(std::ssize(files), [&](int64_t item) {
        const CheckpointFile& file = files[static_cast<size_t>(item)];
        const std::string name = cat(file.name, kEnding);
        const std::string checksum =
            write_safetensors(partial / name, file.tensors, [&](int64_t bytes) { count.add(bytes); });
        manifest.files.at(name) = {InputFile(partial / name).size(), checksum};
    });
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
// the older one stands aside for a moment, and settle_checkpoints() brings it back if that moment is the last.
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

// The checksum of a file, read in pieces.
std::string checksum_of(const InputFile& file, WorkCount& count) {
    std::vector<std::byte> piece(static_cast<size_t>(std::min<int64_t>(file.size(), int64_t{1} << 18)));
    Hasher hasher;
    for (int64_t place = 0; place < file.size(); place += static_cast<int64_t>(piece.size())) {
        const auto part = std::span(piece).first(std::min(piece.size(), static_cast<size_t>(file.size() - place)));
        file.read(place, part);
        hasher.add(part);
        count.add(static_cast<int64_t>(part.size()));
    }
    return hasher.digest();
}

std::string no_manifest() {
    return cat("it has no ", kManifestName, " that can be read");
}

Error damaged(const fs::path& checkpoint, const std::string& damage) {
    return Error(
        cat("checkpoint ", checkpoint.string(), " is damaged: ", damage, "; delete it to go on from the one before"));
}

// What is wrong with one file of a checkpoint, if anything.
std::optional<std::string> damage_of_file(const fs::path& checkpoint, const std::string& name,
                                          const Manifest::File& expected, WorkCount& count) {
    try {
        const std::string checksum = checksum_of(InputFile(checkpoint / name), count);
        return checksum == expected.checksum ? std::nullopt
                                             : std::optional(cat("file ", name, " has checksum ", checksum,
                                                                 ", manifest says ", expected.checksum));
    } catch (const Error& unreadable) {
        return unreadable.what();
    }
}

std::optional<std::string> damage_of_state(const fs::path& checkpoint) {
    const std::optional<Manifest> manifest = read_manifest(checkpoint);
    const std::string name(kStateName);
    if (!manifest) {
        return no_manifest();
    }
    if (!manifest->files.contains(name)) {
        return cat("its manifest has no ", name);
    }
    const LongWork alone;
    WorkCount nobody_asks(alone, 0);
    return damage_of_file(checkpoint, name, manifest->files.at(name), nobody_asks);
}

std::optional<std::string> damage_without_reading(const fs::path& checkpoint) {
    const std::optional<Manifest> manifest = read_manifest(checkpoint);
    return manifest ? missing_in(checkpoint, *manifest) : no_manifest();
}

}  // namespace

fs::path checkpoint_path(const fs::path& folder, int64_t step) {
    return folder / cat(kStep, step);
}

void settle_checkpoints(const fs::path& folder) {
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

void write_checkpoint(const fs::path& folder, int64_t step, const std::vector<CheckpointFile>& files,
                      const std::string& state_json, const LongWork& work) {
    make_folder(folder);
    settle_checkpoints(folder);
    const fs::path partial = aside(folder, step, kPartial);
    try {
        make_folder(partial);
        write_files(partial, files, state_json, work);
        move_into_place(folder, step, partial);
    } catch (...) {
        std::error_code ignored;
        fs::remove_all(partial, ignored);
        throw;
    }
}

std::vector<CheckpointEntry> survey_checkpoints(const fs::path& folder) {
    std::vector<CheckpointEntry> found;
    for (const fs::path& entry : entries_of(folder)) {
        if (const std::optional<int64_t> step = step_of(entry.filename().string())) {
            found.push_back({.step = *step, .damage = damage_without_reading(entry)});
        }
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    return found;
}

std::vector<int64_t> list_checkpoints(const fs::path& folder) {
    std::vector<int64_t> steps;
    for (const CheckpointEntry& entry : survey_checkpoints(folder)) {
        if (!entry.damage) {
            steps.push_back(entry.step);
        }
    }
    return steps;
}

std::optional<std::string> damage_of(const fs::path& checkpoint, const LongWork& work) {
    if (auto damage = damage_without_reading(checkpoint)) {
        return damage;
    }
    const Manifest manifest = read_manifest(checkpoint).value_or(Manifest{});
    const std::vector<std::pair<std::string, Manifest::File>> files(manifest.files.begin(), manifest.files.end());
    std::vector<std::optional<std::string>> damages(files.size());
    WorkCount count(work, bytes_of(manifest));
    work.run(std::ssize(files), [&](int64_t item) {
        const auto& [name, expected] = files[static_cast<size_t>(item)];
        damages[static_cast<size_t>(item)] = damage_of_file(checkpoint, name, expected, count);
    });
    const auto first =
        std::find_if(damages.begin(), damages.end(), [](const auto& damage) { return damage.has_value(); });
    return first == damages.end() ? std::nullopt : *first;
}

void remove_old_checkpoints(const fs::path& folder, int64_t keep, int64_t newest) {
    std::vector<int64_t> steps = list_checkpoints(folder);
    std::erase_if(steps, [&](int64_t step) { return step > newest; });
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
    if (const auto damage = damage_of_state(checkpoint)) {
        throw damaged(checkpoint, *damage);
    }
    return read_text(checkpoint / kStateName);
}

bool is_state_damaged(const fs::path& checkpoint) {
    return damage_of_state(checkpoint).has_value();
}

CheckpointReader::CheckpointReader(const fs::path& checkpoint) {
    if (const auto damage = damage_of(checkpoint)) {
        throw damaged(checkpoint, *damage);
    }
    open(checkpoint);
}

CheckpointReader CheckpointReader::undamaged(const fs::path& checkpoint) {
    CheckpointReader reader;
    reader.open(checkpoint);
    return reader;
}

void CheckpointReader::open(const fs::path& checkpoint) {
    path_ = checkpoint;
    const std::optional<Manifest> manifest = read_manifest(checkpoint);
    if (!manifest) {
        throw damaged(checkpoint, no_manifest());
    }
    for (const auto& [name, expected] : manifest->files) {
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
