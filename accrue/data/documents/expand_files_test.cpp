#include <gmock/gmock.h>

#include "accrue/data/documents/reader_test.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ExpandFilesTest : public ReaderTest {
protected:
    ExpandFilesTest() {
        for (const char* name : {"b.txt", "a.jsonl.gz", "a10.txt", "a9.txt", "sub/deep/c.bin", "sub/d.safetensors.zst",
                                 "notes.md", ".hidden.txt", ".cache/x.txt", "sub/readme"}) {
            (void)write(name, "x");
        }
        fs::create_directories(folder_ / "empty");
    }

    // The files that names in the test's folder stand for, as paths from that folder.
    [[nodiscard]] std::vector<std::string> expanded(const std::vector<std::string>& names) const {
        std::vector<std::string> inside;
        for (const std::string& name : names) {
            inside.push_back((folder_ / name).string());
        }
        std::vector<std::string> files;
        for (const fs::path& file : expand_files(inside)) {
            files.push_back(file.lexically_relative(folder_.path()).string());
        }
        return files;
    }

    [[nodiscard]] std::string error_of_names(const std::vector<std::string>& names) const {
        return error_of([&] { (void)expanded(names); });
    }
};

TEST_F(ExpandFilesTest, FilesStayInTheOrderGiven) {
    EXPECT_THAT(expanded({"b.txt", "a9.txt", "notes.md", "b.txt"}),
                ElementsAre("b.txt", "a9.txt", "notes.md", "b.txt"));
    EXPECT_THAT(expand_files({}), IsEmpty());
}

TEST_F(ExpandFilesTest, AFolderGivesItsKnownFilesSortedAndThoseOfItsFolders) {
    EXPECT_THAT(expanded({""}),
                ElementsAre("a.jsonl.gz", "a10.txt", "a9.txt", "b.txt", "sub/d.safetensors.zst", "sub/deep/c.bin"));
    EXPECT_THAT(expanded({"sub/deep", "b.txt"}), ElementsAre("sub/deep/c.bin", "b.txt"));
}

TEST_F(ExpandFilesTest, AHiddenFolderIsReadWhenItIsNamed) {
    EXPECT_THAT(expanded({".cache"}), ElementsAre(".cache/x.txt"));
}

TEST_F(ExpandFilesTest, StarsAndQuestionMarksMatchWithinAName) {
    EXPECT_THAT(expanded({"*.txt"}), ElementsAre("a10.txt", "a9.txt", "b.txt"));
    EXPECT_THAT(expanded({"a?.txt"}), ElementsAre("a9.txt"));
    EXPECT_THAT(expanded({"*/*/*.bin"}), ElementsAre("sub/deep/c.bin"));
}

TEST_F(ExpandFilesTest, AFolderThatMatchesGivesItsFiles) {
    EXPECT_THAT(expanded({"sub/d*"}), ElementsAre("sub/d.safetensors.zst", "sub/deep/c.bin"));
    EXPECT_THAT(expanded({"s?b"}), ElementsAre("sub/d.safetensors.zst", "sub/deep/c.bin"));
}

TEST_F(ExpandFilesTest, BracketsAndBackslashesStandForThemselves) {
    (void)write("x[1].txt", "x");
    (void)write("x\\1.txt", "x");
    (void)write("x1.txt", "x");
    EXPECT_THAT(expanded({"x[1]*"}), ElementsAre("x[1].txt"));
    EXPECT_THAT(expanded({"x\\*"}), ElementsAre("x\\1.txt"));
}

TEST_F(ExpandFilesTest, AFileThatIsNamedLikeAPatternIsItself) {
    (void)write("*.txt", "x");
    EXPECT_THAT(expanded({"*.txt"}), ElementsAre("*.txt"));
}

TEST_F(ExpandFilesTest, ANameThatGivesNothingIsAnError) {
    EXPECT_THAT(error_of_names({"b.txt", "missing.txt"}),
                AllOf(HasSubstr("there is no file or folder"), HasSubstr("missing.txt")));
    EXPECT_THAT(error_of_names({"*.csv"}), AllOf(HasSubstr("no file matches"), HasSubstr("*.csv")));
    EXPECT_THAT(error_of_names({"emp*"}), HasSubstr("no file matches"));
    EXPECT_THAT(error_of_names({"empty"}),
                AllOf(HasSubstr("the folder"), HasSubstr("empty has no file with a known ending"),
                      HasSubstr(".txt, .jsonl, .bin, .safetensors")));
}

TEST_F(ExpandFilesTest, AFolderThatCannotBeReadIsNamed) {
    fs::permissions(folder_ / "empty", fs::perms::none);
    const std::string error = error_of_names({"empty"});
    fs::permissions(folder_ / "empty", fs::perms::owner_all);
    if (geteuid() == 0) {
        GTEST_SKIP() << "root may read every folder";
    }
    EXPECT_THAT(error, AllOf(HasSubstr("cannot read the folder"), HasSubstr("empty")));
}

}  // namespace
}  // namespace accrue
