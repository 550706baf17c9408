// Pages name files and functions: what they name must be there.
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/base/test_places.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> lines_outside_of_code(const std::string& page) {
    std::vector<std::string> lines;
    std::istringstream stream(page);
    bool in_code = false;
    for (std::string line; std::getline(stream, line);) {
        if (line.starts_with("```")) {
            in_code = !in_code;
        } else if (!in_code) {
            lines.push_back(line);
        }
    }
    return lines;
}

// What a page has in backticks that looks like `pattern`, in its order.
std::vector<std::string> quoted(const std::string& page, const std::string& pattern) {
    const std::regex in_backticks("`(" + pattern + ")`");
    std::vector<std::string> found;
    for (const std::string& line : lines_outside_of_code(page)) {
        for (std::sregex_iterator match(line.begin(), line.end(), in_backticks), end; match != end; ++match) {
            found.push_back((*match)[1]);
        }
    }
    return found;
}

const std::string kSourceFile = R"([\w./-]+\.(?:h|cpp))";
const std::string kAnyPath = R"([\w./-]+(?:\.(?:h|cpp|md|txt|py)|/))";

// Where a path of a page leads: from the repository's root, or from accrue/.
std::optional<fs::path> resolved(const std::string& path) {
    for (const fs::path& root : {source_folder(), source_folder() / "accrue"}) {
        if (fs::exists(root / path)) {
            return root / path;
        }
    }
    return std::nullopt;
}

// Of all paths that a page names, those that lead nowhere.
std::string missing_paths(const std::string& page, const std::string& pattern) {
    std::string missing;
    for (const std::string& path : quoted(page, pattern)) {
        missing += resolved(path) ? "" : path + "\n";
    }
    return missing;
}

// A numbered line "1. `Class::function` (`folder/file.h`): ...".
struct Boundary {
    std::string function;
    std::string file;
};

std::vector<Boundary> boundaries_in(const std::string& page) {
    static const std::regex form(R"(\d+\. `(?:\w+::)?(\w+)` \(`([\w./-]+)`\): .*)");
    std::vector<Boundary> boundaries;
    for (const std::string& line : lines_outside_of_code(page)) {
        if (std::smatch match; std::regex_match(line, match, form)) {
            boundaries.push_back({.function = match[1], .file = match[2]});
        }
    }
    return boundaries;
}

bool is_in_its_file(const Boundary& boundary) {
    const auto file = resolved(boundary.file);
    return file && std::regex_search(text_of(*file), std::regex("\\b" + boundary.function + "\\b"));
}

fs::path architecture() {
    return source_folder() / "docs/architecture.md";
}

TEST(DocsTest, EveryPathOnThePageOfTheArchitectureIsThere) {
    const std::string page = text_of(architecture());
    ASSERT_GT(quoted(page, kAnyPath).size(), 50U) << "the paths were not found";
    EXPECT_EQ(missing_paths(page, kAnyPath), "");
}

TEST(DocsTest, ThatPageWritesPathsInOneForm) {
    for (const std::string& path : quoted(text_of(architecture()), kAnyPath)) {
        EXPECT_TRUE(path == "accrue/" || !path.starts_with("accrue/")) << path << ": leave out accrue/";
        EXPECT_NE(path.find('/'), std::string::npos) << path << ": write its folder too";
    }
}

TEST(DocsTest, EverySourceFileOnAnyPageIsThere) {
    std::vector<fs::path> pages = {source_folder() / "README.md"};
    for (const auto& entry : fs::directory_iterator(source_folder() / "docs")) {
        if (entry.path().extension() == ".md") {
            pages.push_back(entry.path());
        }
    }
    for (const fs::path& page : pages) {
        EXPECT_EQ(missing_paths(text_of(page), kSourceFile), "") << page;
    }
}

TEST(DocsTest, TheWayOfAWindowNamesFunctionsOfTheirFiles) {
    const std::vector<Boundary> way = boundaries_in(text_of(architecture()));
    ASSERT_GT(way.size(), 20U) << "the way was not found";
    for (const Boundary& boundary : way) {
        EXPECT_TRUE(is_in_its_file(boundary)) << boundary.function << " is not in " << boundary.file;
    }
}

TEST(DocsTest, AMadeUpNameIsFound) {
    EXPECT_EQ(missing_paths("See `train/step.cpp` and `train/leap.cpp`,\n`tests/`, `nowhere/`.", kAnyPath),
              "train/leap.cpp\nnowhere/\n");
    EXPECT_EQ(missing_paths("```\n`train/leap.cpp`\n```\n`run_step` and train/leap.cpp", kAnyPath), "");
    const auto way =
        boundaries_in("1. `run_step` (`train/step.cpp`): a step.\n2. `run_leap` (`train/step.cpp`): none.");
    ASSERT_EQ(way.size(), 2U);
    EXPECT_TRUE(is_in_its_file(way[0]));
    EXPECT_FALSE(is_in_its_file(way[1]));
    EXPECT_FALSE(is_in_its_file({.function = "run_step", .file = "train/leap.cpp"}));
}

}  // namespace
}  // namespace accrue
