#pragma once

#include <filesystem>

namespace accrue {

// A file in memory that has no name: however this process ends, nothing is left of it.
class UnnamedFile {
public:
    UnnamedFile();
    UnnamedFile(UnnamedFile&& other) noexcept;
    UnnamedFile& operator=(UnnamedFile&& other) noexcept;
    ~UnnamedFile();

    // By which this process opens it, and one that it starts, before its program begins.
    [[nodiscard]] std::filesystem::path path() const;

private:
    int descriptor_ = -1;
};

}  // namespace accrue
