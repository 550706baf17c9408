#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace accrue {

// The bytes of a file one after another, in constant memory.
class InputStream {
public:
    explicit InputStream(std::string name) : name_(std::move(name)) {}
    virtual ~InputStream() = default;
    InputStream(const InputStream&) = delete;
    InputStream& operator=(const InputStream&) = delete;

    // Fills `into` and returns how many bytes came: fewer only at the end.
    [[nodiscard]] virtual size_t read(std::span<char> into) = 0;
    // How many bytes there are in all; nothing where only reading tells, as with compressed files.
    [[nodiscard]] virtual std::optional<int64_t> size() const { return std::nullopt; }
    // The file, for errors.
    [[nodiscard]] const std::string& name() const { return name_; }

private:
    std::string name_;
};

// Opens a file, unpacked on the way if its name ends in .gz (zlib) or .zst (Zstandard). Compressed data that is damaged
// or cut short is an error that names the file, given when that place is reached.
[[nodiscard]] std::unique_ptr<InputStream> open_stream(const std::filesystem::path& file);

// The name without .gz or .zst behind.
[[nodiscard]] std::filesystem::path without_compression(const std::filesystem::path& file);

}  // namespace accrue
