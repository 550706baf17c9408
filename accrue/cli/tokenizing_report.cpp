#include "accrue/cli/tokenizing_report.h"

#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "accrue/base/bytes.h"
#include "accrue/base/clock.h"

namespace accrue {
namespace {

// "tokens", "validation tokens".
std::string name_of(const CacheProgress& progress) {
    return fmt::format("{}{}tokens", progress.purpose, progress.purpose.empty() ? "" : " ");
}

std::string contents_text(const std::string& name, const TokenCache& cache) {
    return fmt::format("{}: {} in {} document{}", name, short_number(static_cast<double>(cache.token_count())),
                       cache.document_count(), cache.document_count() == 1 ? "" : "s");
}

}  // namespace

TokenizingReport::TokenizingReport(std::FILE* out)
    : bytes_(out, isatty(fileno(out)) != 0, "tokenizing", "bytes", seconds_now) {}

CacheProgressCallback TokenizingReport::callback(const StopFlag& stop) {
    return [this, &stop](const CacheProgress& progress) {
        if (stop && progress.cache == nullptr) {
            bytes_.finish();
            throw StoppedWhileTokenizing();
        }
        tell(progress);
    };
}

void TokenizingReport::tell(const CacheProgress& progress) {
    switch (progress.stage) {
        case CacheProgress::Stage::waiting:
            if (!std::exchange(told_to_wait_, true)) {
                bytes_.note(name_of(progress) + ": another process is tokenizing the same files; waiting for it");
            }
            return;
        case CacheProgress::Stage::tokenizing:
            bytes_total_ = progress.bytes_total;
            bytes_.report(progress.bytes_done, progress.bytes_total);
            return;
        case CacheProgress::Stage::built:
        case CacheProgress::Stage::reused:
            tell_end(progress);
    }
}

void TokenizingReport::tell_end(const CacheProgress& progress) {
    const TokenCache& cache = *progress.cache;
    const std::string name = name_of(progress);
    const std::string place = cache.folder().parent_path().string();
    const double seconds = bytes_.seconds();
    bytes_.finish();
    if (progress.stage == CacheProgress::Stage::reused) {
        bytes_.note(fmt::format("{}, tokenized before (in {})", contents_text(name, cache), place));
    } else {
        bytes_.note(fmt::format("{}, tokenized from {} in {} (kept in {})", contents_text(name, cache),
                                format_bytes(bytes_total_), short_duration(seconds), place));
    }
    if (!cache.rebuilt_because().empty()) {
        bytes_.note(fmt::format("{}: the cache was made anew: {}", name, cache.rebuilt_because()));
    }
    if (cache.skipped() > 0) {
        bytes_.note(
            fmt::format("{}: {} damaged or empty documents were left out; accrue inspect FILE says which file has them",
                        name, cache.skipped()));
    }
}

}  // namespace accrue
