#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <nlohmann/json_fwd.hpp>

namespace accrue {

// A file of JSON lines that grows by one line per optimizer step. Errors name the file.
class MetricsFile {
public:
    // Opens the file to append to it; makes it if there is none.
    explicit MetricsFile(std::filesystem::path path);
    ~MetricsFile();
    MetricsFile(const MetricsFile&) = delete;
    MetricsFile& operator=(const MetricsFile&) = delete;

    // Adds one object as one line, metrics (metric_table.h) in their order. The line is there whole or not at all, for readers too; NaN and
    // infinities are written as null.
    void append(const nlohmann::ordered_json& line);

    // Makes all lines so far safe from a power cut, and the file's name with them.
    void sync();

    // Cuts the file back to its first lines that are whole, valid and have a "step" of at most last_step, so that a
    // resumed run can go on behind them. No file, nothing to cut.
    static void keep_steps(const std::filesystem::path& path, int64_t last_step);

    // The last line, if there is one and it is whole.
    [[nodiscard]] static std::optional<nlohmann::ordered_json> last_line(const std::filesystem::path& path);
    // Puts another line in the place of the last one; the file is there whole at every moment.
    static void replace_last_line(const std::filesystem::path& path, const nlohmann::ordered_json& line);

private:
    std::filesystem::path path_;
    int descriptor_ = -1;
    bool name_is_synced_ = false;
};

}  // namespace accrue
