#pragma once

#include <cstdlib>
#include <filesystem>

namespace accrue {

// Where tests find what they read and start. Both were built in; a folder of built tests that was carried to another machine
// (scripts/test_gpu) names its own.

// The project's sources, or the folder that ACCRUE_TEST_SOURCE_DIR names. For tests only: the sources of accrue do not know.
[[nodiscard]] inline std::filesystem::path source_folder() {
    const char* const named = std::getenv("ACCRUE_TEST_SOURCE_DIR");
    return named == nullptr ? ACCRUE_SOURCE_DIR : named;
}

// A program that was built as `built`, or the one of the same name in the folder that ACCRUE_TEST_PROGRAMS names.
[[nodiscard]] inline std::filesystem::path program_under_test(const std::filesystem::path& built) {
    const char* const named = std::getenv("ACCRUE_TEST_PROGRAMS");
    return named == nullptr ? built : std::filesystem::path(named) / built.filename();
}

}  // namespace accrue
