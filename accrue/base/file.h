#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace accrue {

// A file opened for reading at any place. Errors name the file and the reason.
class InputFile {
public:
    explicit InputFile(std::filesystem::path path);
    ~InputFile();
    InputFile(InputFile&& other) noexcept;
    InputFile& operator=(InputFile&& other) noexcept;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] int64_t size() const { return size_; }
    // Fills `into` from that offset; an error if the file ends before. Safe from several threads.
    void read(int64_t offset, std::span<std::byte> into) const;

private:
    std::filesystem::path path_;
    int descriptor_ = -1;
    int64_t size_ = 0;
};

// A file being written. Nothing is promised to be on the disk before close_synced() returns; of a long file the device is
// given piece after piece on the way, so that what is left to the end is little and whoever counts bytes counts true.
class OutputFile {
public:
    explicit OutputFile(std::filesystem::path path);
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    void write(std::span<const std::byte> bytes);
    void write(std::string_view text);
    // Flushes to the device and closes. Errors (a full disk too) name the file.
    void close_synced();

private:
    void pass_on();

    std::filesystem::path path_;
    int descriptor_ = -1;
    int64_t written_ = 0;
    int64_t passed_on_ = 0;  // bytes that the device has been given
};

// What an error number says, with a word on limits that nobody expects.
[[nodiscard]] std::string write_failure_text(int error);

[[nodiscard]] std::string read_text(const std::filesystem::path& path);
// The file appears whole or not at all: written aside, synced, renamed, its folder synced.
void write_text(const std::filesystem::path& path, std::string_view text);
// Makes the names in a folder durable.
void sync_folder(const std::filesystem::path& folder);
// Cuts a file to that many bytes and syncs it.
void cut_file(const std::filesystem::path& path, int64_t size);

}  // namespace accrue
