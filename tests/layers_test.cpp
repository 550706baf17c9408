// The map of folders in docs/architecture.md is the rule: a file that includes what its folder may not is a fault.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/base/test_places.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// A file and one thing that it includes in quotes, both as paths from the repository's root.
struct Include {
    std::string file;
    std::string included;
};

// What each folder may include beside itself, and the folders in the order of the map.
struct FolderMap {
    std::vector<std::string> order;
    std::map<std::string, std::set<std::string>> may_include;
};

std::string trimmed(const std::string& text) {
    const auto first = text.find_first_not_of(' ');
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) {
        parts.push_back(trimmed(part));
    }
    return parts;
}

// Reads the rows `| folder | idea | may include |`; "all above" stands for every folder in the rows before.
FolderMap read_folder_map(std::istream& page) {
    FolderMap map;
    bool in_table = false;
    for (std::string line; std::getline(page, line);) {
        const auto cells = split(line, '|');
        const bool is_row = cells.size() == 4 && cells[0].empty();
        if (is_row && cells[1] == "folder") {
            in_table = true;
        } else if (!is_row) {
            in_table = false;
        } else if (in_table && cells[1].find_first_not_of('-') != std::string::npos) {
            auto& allowed = map.may_include[cells[1]];
            for (const std::string& name : split(cells[3], ',')) {
                if (name == "all above") {
                    allowed.insert(map.order.begin(), map.order.end());
                } else if (name != "-") {
                    allowed.insert(name);
                }
            }
            map.order.push_back(cells[1]);
        }
    }
    return map;
}

// "accrue/data/samples/dataset.h" lies in "data", "accrue/kernels/cpu/linear.cpp" in "kernels"; nothing for other paths.
std::optional<std::string> folder_of(const std::string& path) {
    const auto parts = split(path, '/');
    return parts.size() >= 3 && parts[0] == "accrue" ? std::optional(parts[1]) : std::nullopt;
}

// Tests of these folders train something small, so they may use everything below train.
bool is_wide_test(const std::string& file, const std::string& folder) {
    static const std::set<std::string> wide = {"model", "accumulate", "optim"};
    return file.ends_with("_test.cpp") && wide.contains(folder);
}

bool is_allowed(const FolderMap& map, const std::string& file, const std::string& from, const std::string& to) {
    if (from == to || map.may_include.at(from).contains(to)) {
        return true;
    }
    return is_wide_test(file, from) && map.may_include.at("train").contains(to);
}

// What one family of models is made of is seen by model alone: all else sees ModelSpec and Model.
bool is_inside_of_a_family(const std::string& included) {
    return included.starts_with("accrue/model/decoder");
}

std::vector<std::string> faults_of(const FolderMap& map, const std::vector<Include>& includes) {
    std::vector<std::string> faults;
    for (const auto& [file, included] : includes) {
        const auto from = folder_of(file);
        const auto to = folder_of(included);
        if (!from || !map.may_include.contains(*from)) {
            faults.push_back(file + " lies in no folder of the map");
        } else if (included.find('/') == std::string::npos || included.starts_with('.')) {
            faults.push_back(file + " includes \"" + included + "\": write the whole path, \"accrue/" + *from +
                             "/...\"");
        } else if (to && !map.may_include.contains(*to)) {
            faults.push_back(file + " includes " + included + ", which lies in no folder of the map");
        } else if (to && !is_allowed(map, file, *from, *to)) {
            faults.push_back(file + " includes " + included + ", but " + *from + " may not include " + *to);
        } else if (*from != "model" && is_inside_of_a_family(included) && !is_wide_test(file, *from)) {
            faults.push_back(file + " includes " + included + ", which is for model alone");
        }
    }
    return faults;
}

// The included path of a line `#include "path"`, if it is one.
std::optional<std::string> quoted_include(const std::string& line) {
    static const std::string start = "#include \"";
    const std::string code = trimmed(line);
    if (!code.starts_with(start)) {
        return std::nullopt;
    }
    return code.substr(start.size(), code.find('"', start.size()) - start.size());
}

std::vector<Include> includes_below(const fs::path& root, const fs::path& folder) {
    std::vector<Include> includes;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
        const auto ending = entry.path().extension();
        if (ending != ".h" && ending != ".cpp") {
            continue;
        }
        std::ifstream file(entry.path());
        for (std::string line; std::getline(file, line);) {
            if (const auto included = quoted_include(line)) {
                includes.push_back({fs::relative(entry.path(), root).generic_string(), *included});
            }
        }
    }
    return includes;
}

FolderMap documented_map() {
    std::ifstream page(source_folder() / "docs" / "architecture.md");
    return read_folder_map(page);
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) {
        text += line + "\n";
    }
    return text;
}

TEST(LayersTest, IncludesFollowTheMap) {
    const auto includes = includes_below(source_folder(), "accrue");
    ASSERT_GT(includes.size(), 20U) << "the sources were not found";
    EXPECT_EQ(joined(faults_of(documented_map(), includes)), "");
}

TEST(LayersTest, TheMapNamesEveryFolderAndNoOther) {
    std::vector<std::string> present;
    for (const auto& entry : fs::directory_iterator(source_folder() / "accrue")) {
        if (entry.is_directory()) {
            present.push_back(entry.path().filename().string());
        }
    }
    auto documented = documented_map().order;
    std::ranges::sort(present);
    std::ranges::sort(documented);
    EXPECT_EQ(present, documented);
}

// Without this, two rows that name each other would make the layers a circle.
TEST(LayersTest, FoldersIncludeOnlyFoldersAboveThemInTheMap) {
    const FolderMap map = documented_map();
    ASSERT_FALSE(map.order.empty());
    std::set<std::string> above;
    for (const std::string& folder : map.order) {
        EXPECT_TRUE(std::ranges::includes(above, map.may_include.at(folder))) << folder;
        above.insert(folder);
    }
}

class FaultsTest : public testing::Test {
protected:
    std::string faults(const std::string& file, const std::string& included) const {
        return joined(faults_of(map_, {{file, included}}));
    }

private:
    FolderMap map_ = documented_map();
};

TEST_F(FaultsTest, DownwardIncludesAreFine) {
    EXPECT_EQ(faults("accrue/train/step.cpp", "accrue/optim/adamw.h"), "");
    EXPECT_EQ(faults("accrue/kernels/cpu/linear.cpp", "accrue/kernels/kernels.h"), "");
    EXPECT_EQ(faults("accrue/data/samples/dataset.cpp", "accrue/tensor/safetensors.h"), "");
    EXPECT_EQ(faults("accrue/kernels/cpu/linear.cpp", "hwy/highway.h"), "");
}

TEST_F(FaultsTest, AnUpwardIncludeIsNamed) {
    EXPECT_EQ(faults("accrue/base/file.cpp", "accrue/train/step.h"),
              "accrue/base/file.cpp includes accrue/train/step.h, but base may not include train\n");
    EXPECT_NE(faults("accrue/model/decoder.cpp", "accrue/data/samples/dataset.h"), "");
    EXPECT_NE(faults("accrue/checkpoint/writer_test.cpp", "accrue/kernels/kernels.h"), "");
    EXPECT_NE(faults("accrue/train/step.cpp", "accrue/cli/commands.h"), "");
}

TEST_F(FaultsTest, WhatADecoderIsMadeOfIsForModelAlone) {
    EXPECT_EQ(faults("accrue/train/engine.h", "accrue/model/model_spec.h"), "");
    EXPECT_EQ(faults("accrue/model/families.cpp", "accrue/model/decoder/spec.h"), "");
    EXPECT_EQ(faults("accrue/train/engine.h", "accrue/model/decoder.h"),
              "accrue/train/engine.h includes accrue/model/decoder.h, which is for model alone\n");
    EXPECT_NE(faults("accrue/assess/bench_test.cpp", "accrue/model/decoder/config.h"), "");
}

TEST_F(FaultsTest, OnlyTestsOfModelAccumulateAndOptimSeeAllBelowTrain) {
    EXPECT_EQ(faults("accrue/model/decoder_test.cpp", "accrue/data/samples/dataset.h"), "");
    EXPECT_EQ(faults("accrue/optim/adamw_test.cpp", "accrue/model/decoder/config.h"), "");
    EXPECT_NE(faults("accrue/model/decoder_test.cpp", "accrue/train/step.h"), "");
    EXPECT_NE(faults("accrue/data/samples/corpus_test.cpp", "accrue/model/decoder/config.h"), "");
}

TEST_F(FaultsTest, UnknownFoldersAndShortPathsAreFaults) {
    EXPECT_NE(faults("accrue/misc/helpers.cpp", "accrue/base/error.h"), "");
    EXPECT_NE(faults("accrue/main.cpp", "accrue/base/error.h"), "");
    EXPECT_NE(faults("accrue/data/samples/dataset.cpp", "accrue/misc/helpers.h"), "");
    EXPECT_NE(faults("accrue/data/samples/dataset.cpp", "dataset.h"), "");
    EXPECT_NE(faults("accrue/data/samples/dataset.cpp", "../base/error.h"), "");
}

TEST(QuotedIncludeTest, FindsThePathAndNothingElse) {
    EXPECT_EQ(quoted_include("#include \"accrue/base/error.h\"  // why"), "accrue/base/error.h");
    EXPECT_EQ(quoted_include("#include <vector>"), std::nullopt);
    EXPECT_EQ(quoted_include("// #include \"accrue/base/error.h\""), std::nullopt);
}

}  // namespace
}  // namespace accrue
