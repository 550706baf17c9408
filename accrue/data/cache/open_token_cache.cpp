#include <algorithm>
#include <system_error>
#include <utility>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/file_lock.h"
#include "accrue/base/hash.h"
#include "accrue/data/cache/cache_care.h"
#include "accrue/data/cache/file_contents.h"
#include "accrue/data/cache/token_build.h"
#include "accrue/data/cache/token_cache.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kShortIds = 65536;

int token_bytes_of(const TokenSource& source) {
    return source.vocabulary <= kShortIds ? 2 : 4;
}

// The same bytes are read differently as .txt and as .jsonl.
std::string kind_of(const fs::path& file) {
    const std::string ending = file.extension().string();
    const bool packed = ending == ".gz" || ending == ".zst";
    return packed ? file.stem().extension().string() + ending : ending;
}

std::string key_of(const TokenSource& source, const std::vector<std::string>& hashes) {
    std::string text = cat(kTokenFormatVersion, "\n", token_bytes_of(source), "\n", source.settings, "\n");
    for (size_t i = 0; i < hashes.size(); ++i) {
        text += cat(hashes[i], " ", kind_of(source.files[i]), "\n");
    }
    return hash_of(std::as_bytes(std::span(text)));
}

// What a build that was interrupted has left. Its lock is free, because its process is gone.
void remove_partial(const fs::path& partial) {
    std::error_code failed;
    fs::remove_all(partial, failed);
    if (failed) {
        throw Error(cat("cannot remove ", partial.string(), ", which an interrupted run left: ", failed.message()));
    }
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
    std::error_code failed;
    fs::rename(from, to, failed);
    if (failed) {
        throw Error(cat("cannot rename ", from.string(), " to ", to.string(), ": ", failed.message()));
    }
}

void build_into(const fs::path& folder, const std::string& key, const TokenSource& source, Pool& pool,
                const CacheProgressCallback& progress) {
    fs::create_directory(folder);
    TokenWriter writer(folder, token_bytes_of(source));
    TokenBuild build(source, token_bytes_of(source), pool, writer);
    build.run(progress);
    if (writer.documents() == 0) {
        throw Error(cat(source.files.front().string(),
                        source.files.size() > 1 ? " and the files after it have" : " has",
                        " no text: at least one document is needed"));
    }
    writer.finish(key, build.skipped() + writer.empty_documents(), build.conversations());
}

std::vector<FileState> states_of(const std::vector<fs::path>& files) {
    std::vector<FileState> states;
    std::transform(files.begin(), files.end(), std::back_inserter(states), state_of);
    return states;
}

// The key was made of what was in the files before.
void check_unchanged(const std::vector<fs::path>& files, const std::vector<FileState>& before) {
    for (size_t i = 0; i < files.size(); ++i) {
        if (state_of(files[i]) != before[i]) {
            throw Error(cat(files[i].string(), " changed while it was read. Start again when it is complete."));
        }
    }
}

// The cache appears whole or not at all: written aside, synced, renamed. Under a lock.
void build(const fs::path& folder, const TokenSource& source, const std::vector<FileState>& states, Pool& pool,
           const CacheProgressCallback& progress) {
    const fs::path partial = folder.string() + ".partial";
    remove_partial(partial);
    try {
        build_into(partial, folder.filename().string(), source, pool, progress);
        check_unchanged(source.files, states);
        fs::remove_all(folder);
        rename_or_fail(partial, folder);
    } catch (...) {
        std::error_code ignored;
        fs::remove_all(partial, ignored);
        throw;
    }
    sync_folder(folder.parent_path());
}

CacheUse use_of(const std::string& key, const std::vector<fs::path>& files, const std::vector<std::string>& contents) {
    CacheUse use{.cache = key, .files = {}};
    for (size_t i = 0; i < files.size(); ++i) {
        const std::string path = fs::absolute(files[i]).lexically_normal().string();
        use.files.push_back({.name = hash_of(std::as_bytes(std::span(path))), .contents = contents[i]});
    }
    return use;
}

void make_folder(const fs::path& folder) {
    std::error_code failed;
    fs::create_directories(folder, failed);
    if (failed) {
        throw Error(cat("cannot make the folder ", folder.string(), " for tokenized files: ", failed.message()));
    }
}

// Without a lock. None also if another process removes the cache meanwhile, because the files have changed.
std::shared_ptr<const TokenCache> open_if_whole(const fs::path& folder, const std::vector<fs::path>& files) {
    try {
        if (fs::exists(folder) && defect_of_cache(folder, folder.filename().string()).empty()) {
            return std::make_shared<TokenCache>(folder, files, "");
        }
    } catch (const Error&) {
        // Whoever asks again under the lock finds out what is wrong.
    }
    return nullptr;
}

}  // namespace

std::shared_ptr<const TokenCache> open_token_cache(const TokenSource& source, const TokenCacheOptions& options) {
    if (source.files.empty()) {
        throw Error("a dataset needs at least one file, and none was given");
    }
    make_folder(options.folder);
    Pool pool(options.threads);
    const std::vector<FileState> states = states_of(source.files);
    const std::vector<std::string> contents = FileContents(options.folder).hashes(source.files, pool);
    const std::string key = key_of(source, contents);
    const fs::path folder = options.folder / key;
    const auto tell = [&](const CacheProgress& progress) {
        if (options.progress) {
            options.progress(progress);
        }
    };
    const auto hand_out = [&](std::shared_ptr<const TokenCache> cache, CacheProgress::Stage stage) {
        note_use_and_tidy(options.folder, use_of(key, source.files, contents));
        tell({.stage = stage, .cache = cache.get()});
        return cache;
    };
    if (auto cache = open_if_whole(folder, source.files)) {
        return hand_out(std::move(cache), CacheProgress::Stage::reused);
    }
    const FileLock lock(folder.string() + ".lock", [&] { tell({.stage = CacheProgress::Stage::waiting}); });
    // Asked again, because somebody else may have built it meanwhile.
    const bool exists = fs::exists(folder);
    const std::string defect = exists ? defect_of_cache(folder, key) : "";
    if (exists && defect.empty()) {
        return hand_out(std::make_shared<TokenCache>(folder, source.files, ""), CacheProgress::Stage::reused);
    }
    build(folder, source, states, pool, options.progress);
    return hand_out(std::make_shared<TokenCache>(folder, source.files, defect), CacheProgress::Stage::built);
}

}  // namespace accrue
