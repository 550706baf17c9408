#include "accrue/observe/metrics.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/observe/metric_table.h"

namespace accrue {
namespace {

using Json = nlohmann::json;

std::string text_of(const nlohmann::ordered_json& line) {
    return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Where the last whole line begins.
size_t begin_of_last_line(std::string_view text) {
    const size_t end_before = text.size() < 2 ? std::string_view::npos : text.rfind('\n', text.size() - 2);
    return end_before == std::string_view::npos ? 0 : end_before + 1;
}

// The end of a file, with at least the last two line ends that it has.
std::string end_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
    std::string text;
    for (int64_t length = int64_t{1} << 16; std::ssize(text) < size && begin_of_last_line(text) == 0; length *= 2) {
        text.resize(static_cast<size_t>(std::min(size, length)));
        file.seekg(size - std::ssize(text));
        if (!file.read(text.data(), std::ssize(text))) {
            throw Error(cat("cannot read the metrics of ", path.string(), "."));
        }
    }
    return text;
}

bool is_kept(std::string_view line, int64_t last_step) {
    const Json json = Json::parse(line, nullptr, false);
    const auto step = json.is_object() ? json.find(Metrics::kStep.name) : json.end();
    return step != json.end() && step->is_number_integer() && step->get<int64_t>() <= last_step;
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) {
        throw Error(cat("cannot write metrics to ", path_.string(), ": ", write_failure_text(errno)));
    }
}

MetricsFile::~MetricsFile() {
    close(descriptor_);
}

void MetricsFile::append(const nlohmann::ordered_json& line) {
    const std::string text = text_of(line);
    const off_t before = lseek(descriptor_, 0, SEEK_END);
    size_t done = 0;
    int error = 0;
    while (done < text.size() && error == 0) {
        const ssize_t count = write(descriptor_, text.data() + done, text.size() - done);
        done += count > 0 ? static_cast<size_t>(count) : 0;
        error = count < 0 && errno != EINTR ? errno : 0;
    }
    if (error == 0) {
        return;
    }
    // A disk that became full took a part of the line; without it the file is as it was.
    const bool cut = done == 0 || before < 0 || ftruncate(descriptor_, before) == 0;
    throw Error(cat("cannot write metrics to ", path_.string(), ": ", write_failure_text(error),
                    cut ? "" : "; its last line is incomplete"));
}

void MetricsFile::sync() {
    // EINVAL: what stands in the file's place (a pipe, a device) cannot be synced.
    if (fsync(descriptor_) != 0 && errno != EINVAL) {
        throw Error(cat("cannot write metrics to ", path_.string(), ": ", write_failure_text(errno)));
    }
    if (!std::exchange(name_is_synced_, true)) {
        sync_folder(path_.has_parent_path() ? path_.parent_path() : std::filesystem::path("."));
    }
}

void MetricsFile::keep_steps(const std::filesystem::path& path, int64_t last_step) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) {
        return;
    }
    std::ifstream file(path, std::ios::binary);
    int64_t kept = 0;
    for (std::string line; std::getline(file, line) && !file.eof() && is_kept(line, last_step);) {
        kept += std::ssize(line) + 1;
    }
    if (!file.is_open() || file.bad()) {
        throw Error(cat("cannot read the metrics of ", path.string(), "."));
    }
    if (kept < static_cast<int64_t>(std::filesystem::file_size(path))) {
        cut_file(path, kept);
    }
}

std::optional<nlohmann::ordered_json> MetricsFile::last_line(const std::filesystem::path& path) {
    std::error_code ignored;
    const std::string text = std::filesystem::exists(path, ignored) ? end_of(path) : "";
    auto json = nlohmann::ordered_json::parse(std::string_view(text).substr(begin_of_last_line(text)), nullptr, false);
    return text.ends_with('\n') && json.is_object() ? std::optional(std::move(json)) : std::nullopt;
}

void MetricsFile::replace_last_line(const std::filesystem::path& path, const nlohmann::ordered_json& line) {
    const std::string text = read_text(path);
    write_text(path, text.substr(0, begin_of_last_line(text)) + text_of(line));
}

}  // namespace accrue
