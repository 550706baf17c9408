#include "accrue/train/run_claim.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/inputs.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

void make_run_folder(const fs::path& folder) {
    std::error_code failure;
    fs::create_directories(folder, failure);
    if (failure) {
        throw Error(cat("cannot make the run folder ", folder.string(), ": ", failure.message(),
                        ". Set run.folder to a place you may write to."));
    }
}

// Makes the next free runs/N, which no other process then takes.
fs::path make_numbered_folder() {
    make_run_folder("runs");
    for (int64_t number = 1;; ++number) {
        fs::path candidate = fs::path("runs") / std::to_string(number);
        std::error_code failure;
        if (fs::create_directory(candidate, failure)) {
            return candidate;
        }
        if (failure && failure != std::errc::file_exists && !fs::exists(candidate)) {
            throw Error(cat("cannot make the run folder ", candidate.string(), ": ", failure.message(),
                            ". Set run.folder to a place you may write to."));
        }
    }
}

std::string holder_text() {
    std::array<char, 256> host{};
    (void)gethostname(host.data(), host.size() - 1);
    return fmt::format("process {} on {} since {:%Y-%m-%d %H:%M:%S}", getpid(), host.data(),
                       fmt::localtime(std::time(nullptr)));
}

std::unique_ptr<FileLock> lock_or_refuse(const RunFolder& folder) {
    auto lock = std::make_unique<FileLock>(folder.lock(), [&] {
        const std::string holder = read_text(folder.lock());
        throw RunInUse(cat(folder.root.string(), " is in use by ", holder.empty() ? "another process" : holder,
                           ". Wait until it is done, stop it, or choose another run.folder."));
    });
    lock->say(holder_text());
    return lock;
}

// Does run.toml come from a run, and not from a person?
bool is_resolved(const fs::path& run_toml) {
    return read_text(run_toml).starts_with(kResolvedSettingsMark);
}

// Half a file or folder of a process that was killed: whatever has such a name is ours.
bool is_partial(const fs::path& entry) {
    const std::string name = entry.filename().string();
    return name.starts_with('.') && name.ends_with(".partial");
}

// Half a checkpoint is all there is.
bool holds_only_partial(const fs::path& checkpoints) {
    return fs::is_directory(checkpoints) && std::all_of(fs::directory_iterator(checkpoints), fs::directory_iterator(),
                                                        [](const auto& entry) { return is_partial(entry.path()); });
}

// What a start of ours leaves that did not come to its first checkpoint. Its run.toml is written first: without one, files
// with our names are somebody's own.
bool is_left_by_a_start(const RunFolder& folder, const fs::path& entry) {
    if (!fs::exists(folder.settings())) {
        return entry == folder.lock() || entry == folder.term() || entry == aside_of(folder.settings()) ||
               entry == aside_of(folder.term());
    }
    if (!is_resolved(folder.settings())) {
        return entry == folder.lock() || entry == folder.term();
    }
    if (entry == folder.checkpoints()) {
        return holds_only_partial(entry);
    }
    return entry == folder.settings() || entry == folder.metrics() || entry == folder.lock() ||
           entry == folder.term() || entry == folder.tokenizer() || is_partial(entry);
}

int64_t last_term(const fs::path& file) {
    const std::string text = read_text(file);
    int64_t term = -1;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), term);
    if (read.ec != std::errc() || std::string_view(read.ptr) != "\n" || term < 0 ||
        term == std::numeric_limits<int64_t>::max()) {
        throw Error(cat(file.string(), " should hold the number of the last start that led workers, but holds '",
                        text.substr(0, 40), "'. When no worker of an earlier start is left, remove it."));
    }
    return term;
}

// Is `path` this file or folder, or does it lie in it? Both without links.
bool lies_in(const fs::path& path, const fs::path& folder) {
    return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

struct NamedInput {
    std::string key;
    fs::path path;
};

std::vector<NamedInput> inputs_of(const Settings& settings, const fs::path& settings_file) {
    std::vector<NamedInput> inputs = {{"model.from", settings.model.from},
                                      {"data.tokenizer", settings.data.tokenizer},
                                      {"the settings file", settings_file}};
    for (const auto& [key, names] :
         {std::pair{"data.train", settings.data.train}, std::pair{"data.validation", settings.data.validation}}) {
        for (const fs::path& file : expand_files(names)) {
            inputs.push_back({key, file});
        }
    }
    std::erase_if(inputs, [](const NamedInput& input) { return input.path.empty(); });
    return inputs;
}

}  // namespace

void check_inputs_stay(const Settings& settings, const fs::path& settings_file, const RunFolder& given) {
    const RunFolder folder{fs::weakly_canonical(given.root)};
    for (const auto& [key, names] :
         {std::pair{"data.train", settings.data.train}, std::pair{"data.validation", settings.data.validation}}) {
        for (const std::string& name : names) {
            if (fs::is_directory(name) && lies_in(folder.root, fs::weakly_canonical(name))) {
                throw Error(cat(key, " names the folder ", name, ", and the run ", given.root.string(),
                                " would lie in it: its own files would become data. Set run.folder to a place outside, "
                                "or name the files themselves."));
            }
        }
    }
    for (const auto& [key, path] : inputs_of(settings, settings_file)) {
        const fs::path input = fs::weakly_canonical(path);
        for (const fs::path& output : {folder.settings(), folder.metrics(), folder.report(), folder.checkpoints(),
                                       folder.model(), folder.tokenizer(), folder.lock(), folder.term()}) {
            if (lies_in(input, fs::weakly_canonical(output))) {
                throw Error(
                    cat(key, " is ", path.string(), ", which the run in ", given.root.string(),
                        " would replace. Set run.folder to another place",
                        input == folder.settings()
                            ? cat(", or continue the run that is there: accrue train --resume ", given.root.string())
                            : "",
                        "."));
            }
        }
    }
}

RunClaim::RunClaim(RunFolder folder, Kind kind, bool made_folder)
    : folder_(std::move(folder)), kind_(kind), made_folder_(made_folder), lock_(lock_or_refuse(folder_)) {}

RunClaim RunClaim::of_new_run(const Settings& settings, const fs::path& settings_file, Overwrite overwrite) {
    if (settings.run.folder.empty()) {
        RunClaim claim({make_numbered_folder()}, Kind::new_run, true);
        check_inputs_stay(settings, settings_file, claim.folder_);
        return claim;
    }
    const RunFolder folder{settings.run.folder};
    check_inputs_stay(settings, settings_file, folder);
    const bool makes_folder = !fs::exists(folder.root);
    make_run_folder(folder.root);
    RunClaim claim(folder, Kind::new_run, makes_folder);
    if (overwrite == Overwrite::no) {
        claim.refuse_contents();
    }
    return claim;
}

void RunClaim::refuse_contents() const {
    if (folder_.newest_checkpoint()) {
        throw Error(cat(folder_.root.string(),
                        " already holds a run with a checkpoint. Continue it with: accrue train --resume ",
                        folder_.root.string(), " , or choose another run.folder."));
    }
    for (const auto& entry : fs::directory_iterator(folder_.root)) {
        if (!is_left_by_a_start(folder_, entry.path())) {
            throw Error(cat("the run folder ", folder_.root.string(), " is not empty: it holds ",
                            entry.path().filename().string(),
                            ". Choose another run.folder, or give --overwrite, which replaces what an earlier run left "
                            "there (run.toml, metrics.jsonl, report.html, checkpoints/, model/, tokenizer/)."));
        }
    }
}

RunClaim RunClaim::of_run(const fs::path& root, Overwrite overwrite) {
    const RunFolder folder{root};
    if (!fs::exists(folder.settings())) {
        throw Error(
            cat(root.string(),
                " holds no run.toml, so there is no run to continue. Give the folder that accrue train printed."));
    }
    RunClaim claim(folder, Kind::continued, false);
    settle_checkpoints(folder.checkpoints());
    if (overwrite == Overwrite::no && !folder.has_checkpoints() && fs::exists(folder.model())) {
        throw Error(cat(root.string(),
                        " holds a model but no checkpoint, so that the run would begin again and "
                        "replace the model. Start it elsewhere with another run.folder, or give --overwrite."));
    }
    return claim;
}

RunClaim::~RunClaim() {
    if (!lock_) {
        return;  // moved from
    }
    std::error_code ignored;
    fs::remove(folder_.lock(), ignored);
    if (made_folder_ && !begun_) {
        fs::remove(folder_.term(), ignored);
        fs::remove(folder_.root, ignored);  // only if it is empty
    }
}

Settings RunClaim::settings(const std::vector<std::string>& overrides) const {
    for (const std::string& text : overrides) {
        if (text.starts_with("run.folder=")) {
            throw Error(cat("--set ", text, ": a run that is continued stays in its folder, ", folder_.root.string(),
                            ". Move the folder itself, or leave this out."));
        }
    }
    Settings settings = read_settings(folder_.settings(), overrides);
    // The folder may have been moved since.
    settings.run.folder = fs::absolute(folder_.root).lexically_normal().string();
    return settings;
}

bool RunClaim::goes_on() const {
    return kind_ == Kind::continued && folder_.has_checkpoints();
}

int64_t RunClaim::begin_term(int64_t least) {
    const int64_t term = std::max(least, fs::exists(folder_.term()) ? last_term(folder_.term()) + 1 : 0);
    write_text(folder_.term(), cat(term, "\n"));
    return term;
}

void RunClaim::begin(const Settings& settings) {
    if (kind_ == Kind::new_run) {
        for (const fs::path& old :
             {folder_.checkpoints(), folder_.model(), folder_.tokenizer(), folder_.report(), folder_.metrics()}) {
            fs::remove_all(old);
        }
        for (const auto& entry : fs::directory_iterator(folder_.root)) {
            if (is_partial(entry.path())) {
                fs::remove_all(entry.path());
            }
        }
    }
    begun_ = true;
    Settings resolved = settings;
    resolved.run.folder = fs::absolute(folder_.root).lexically_normal().string();
    write_text(folder_.settings(), to_toml(resolved));
    if (!fs::exists(folder_.tokenizer())) {
        keep_tokenizer(resolved, folder_.tokenizer());
    }
}

}  // namespace accrue
