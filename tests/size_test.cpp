// Files stay short enough to read in one go.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "accrue/base/temporary_folder.h"
#include "accrue/base/test_places.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLongestSource = 450;
constexpr int64_t kLongestReadme = 120;

int64_t lines_of(const fs::path& path) {
    std::ifstream file(path);
    return std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n');
}

TEST(SizeTest, NoSourceFileIsLong) {
    int sources = 0;
    for (const char* folder : {"accrue", "tests"}) {
        for (const auto& entry : fs::recursive_directory_iterator(source_folder() / folder)) {
            const auto ending = entry.path().extension();
            if (ending == ".h" || ending == ".cpp") {
                ++sources;
                EXPECT_LE(lines_of(entry.path()), kLongestSource) << entry.path() << ": look for the second idea in it";
            }
        }
    }
    EXPECT_GT(sources, 10) << "the sources were not found";
}

TEST(SizeTest, TheReadmeIsReadInMinutes) {
    const auto readme = source_folder() / "README.md";
    if (!fs::exists(readme)) {
        GTEST_SKIP() << "there is no README.md";
    }
    EXPECT_LE(lines_of(readme), kLongestReadme);
}

TEST(SizeTest, CountsLines) {
    const accrue::TemporaryFolder folder;
    const auto path = folder / "lines.txt";
    std::ofstream(path) << "one\ntwo\nthree\n";
    EXPECT_EQ(lines_of(path), 3);
}

}  // namespace
}  // namespace accrue
