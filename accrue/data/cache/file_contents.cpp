#include "accrue/data/cache/file_contents.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <sstream>
#include <system_error>

#include <sys/stat.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/file_lock.h"
#include "accrue/base/hash.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kReadBytes = int64_t{1} << 20;

int64_t nanoseconds_of(const timespec& time) {
    return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

std::string contents_hash(const fs::path& path) {
    const InputFile file(path);
    Hasher hasher;
    std::vector<std::byte> piece;
    for (int64_t place = 0; place < file.size(); place += kReadBytes) {
        piece.resize(static_cast<size_t>(std::min(kReadBytes, file.size() - place)));
        file.read(place, piece);
        hasher.add(piece);
    }
    return hasher.digest();
}

// A file written to a moment ago may be written to again without its time changing, because clocks of file systems are
// coarse: only a file that has rested can be known by its times.
bool has_rested(const FileState& state) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - state.modified > 2'000'000'000;
}

}  // namespace

FileState state_of(const fs::path& file) {
    struct stat facts {};
    if (stat(file.c_str(), &facts) != 0) {
        throw Error(cat("cannot read ", file.string(), ": ", std::generic_category().message(errno)));
    }
    return {facts.st_size, nanoseconds_of(facts.st_mtim), nanoseconds_of(facts.st_ctim)};
}

FileContents::FileContents(const fs::path& folder) : list_(folder / "contents") {
    if (!fs::exists(list_)) {
        return;
    }
    std::istringstream lines(read_text(list_));
    std::string line;
    while (std::getline(lines, line)) {
        std::istringstream parts(line);
        Known known;
        std::string name;
        parts >> known.hash >> known.state.size >> known.state.modified >> known.state.changed;
        if (parts.get() == ' ' && std::getline(parts, name)) {
            known_[name] = known;
        }
    }
}

std::vector<std::string> FileContents::hashes(const std::vector<fs::path>& files, Pool& pool) {
    std::vector<std::string> result(files.size());
    std::vector<std::string> names(files.size());
    std::vector<FileState> states(files.size());
    std::vector<size_t> unknown;
    for (size_t i = 0; i < files.size(); ++i) {
        names[i] = fs::absolute(files[i]).lexically_normal().string();
        states[i] = state_of(files[i]);
        const auto found = known_.find(names[i]);
        if (found != known_.end() && found->second.state == states[i]) {
            result[i] = found->second.hash;
        } else {
            unknown.push_back(i);
        }
    }
    pool.run(static_cast<int64_t>(unknown.size()), [&](int64_t item, int) {
        const size_t i = unknown[static_cast<size_t>(item)];
        result[i] = contents_hash(files[i]);
    });
    for (const size_t i : unknown) {
        if (has_rested(states[i]) && names[i].find('\n') == std::string::npos) {
            known_[names[i]] = {states[i], result[i]};
        }
    }
    if (!unknown.empty()) {
        write_list();
    }
    return result;
}

void FileContents::write_list() const {
    std::string text;
    for (const auto& [name, known] : known_) {
        text += cat(known.hash, " ", known.state.size, " ", known.state.modified, " ", known.state.changed, " ", name,
                    "\n");
    }
    // Two processes may write at once; the last one's list stays, which costs the other a look at its files.
    const FileLock lock(list_.string() + ".lock", [] {});
    write_text(list_, text);
}

}  // namespace accrue
