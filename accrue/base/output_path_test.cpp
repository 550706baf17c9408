#include "accrue/base/output_path.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class OutputPathTest : public ::testing::Test {
protected:
    OutputPathTest() { write_text(folder_ / "input.txt", "kept"); }

    [[nodiscard]] OutputPlace place(const fs::path& path, Overwrite overwrite = Overwrite::yes) const {
        return {.option = "--output", .path = path, .inputs = {folder_ / "input.txt"}, .overwrite = overwrite};
    }
    template <class Check>
    [[nodiscard]] static std::string error_of(Check check) {
        try {
            (void)check();
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    }
    [[nodiscard]] std::string file_error(const fs::path& path, Overwrite overwrite = Overwrite::yes) const {
        return error_of([&] { return check_output_file(place(path, overwrite)); });
    }
    [[nodiscard]] std::string folder_error(const fs::path& path, const std::vector<fs::path>& inputs,
                                           Overwrite overwrite = Overwrite::yes) const {
        return error_of([&] {
            return check_output_folder({.option = "--output", .path = path, .inputs = inputs, .overwrite = overwrite},
                                       {"a.json", "b.json"});
        });
    }

    TemporaryFolder folder_;
};

TEST_F(OutputPathTest, WhereNothingIsAFileMayBeWritten) {
    EXPECT_EQ(check_output_file(place(folder_ / "new", Overwrite::no)), folder_ / "new");
    EXPECT_TRUE(fs::exists(folder_ / "input.txt"));
    EXPECT_FALSE(fs::exists(folder_ / "new")) << "asking writes nothing";
}

TEST_F(OutputPathTest, WhatIsThereIsReplacedOnlyOnRequest) {
    write_text(folder_ / "old", "");
    EXPECT_THAT(file_error(folder_ / "old", Overwrite::no),
                AllOf(HasSubstr("--output " + (folder_ / "old").string()), HasSubstr("exists already"),
                      HasSubstr("--overwrite")));
    EXPECT_EQ(check_output_file(place(folder_ / "old")), folder_ / "old");
}

TEST_F(OutputPathTest, AnInputIsNeverReplacedUnderNoName) {
    fs::create_directory(folder_ / "sub");
    fs::create_symlink(folder_ / "input.txt", folder_ / "link");
    fs::create_hard_link(folder_ / "input.txt", folder_ / "hard");
    fs::create_directory_symlink(folder_.path(), folder_ / "here");
    for (const fs::path& name : {fs::path("input.txt"), fs::path("sub/../input.txt"), fs::path("link"),
                                 fs::path("hard"), fs::path("here/input.txt")}) {
        EXPECT_THAT(file_error(folder_ / name), AllOf(HasSubstr("input.txt"), HasSubstr("never replaced"))) << name;
    }
}

TEST_F(OutputPathTest, BehindALinkTheFileIsReplacedAndTheLinkStays) {
    write_text(folder_ / "old", "");
    fs::create_symlink("old", folder_ / "link");
    EXPECT_EQ(check_output_file(place(folder_ / "link")), fs::canonical(folder_ / "old"));
}

TEST_F(OutputPathTest, OnlyAFileIsReplacedByAFile) {
    fs::create_directory(folder_ / "sub");
    ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    const int socket_of_ours = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    (folder_ / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(bind(socket_of_ours, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    close(socket_of_ours);
    EXPECT_THAT(file_error(folder_ / "sub"), HasSubstr("a folder, and a file is to be written"));
    EXPECT_THAT(file_error(folder_ / "pipe"), HasSubstr("a named pipe"));
    EXPECT_THAT(file_error(folder_ / "socket"), HasSubstr("a socket"));
    EXPECT_THAT(file_error("/dev/null"), HasSubstr("a device"));
    EXPECT_THAT(file_error("/dev/null", Overwrite::no), HasSubstr("a device"));
}

TEST_F(OutputPathTest, PlacesWhereNothingCanBeWrittenAreSaidAtOnce) {
    fs::create_symlink("nowhere", folder_ / "dangling");
    EXPECT_THAT(file_error(folder_ / "dangling"), AllOf(HasSubstr("a link to nowhere"), HasSubstr("does not exist")));
    EXPECT_THAT(file_error(folder_ / "no" / "such" / "x"),
                AllOf(HasSubstr("there is no folder"), HasSubstr((folder_ / "no" / "such").string())));
    EXPECT_THAT(file_error(folder_ / "input.txt" / "x"), HasSubstr("input.txt"));
    EXPECT_THAT(file_error(""), HasSubstr("empty"));
    EXPECT_THAT(file_error(folder_ / "new" / ""), HasSubstr("names a folder"));
}

TEST_F(OutputPathTest, AFolderThatMayNotBeWrittenToIsSaidAtOnce) {
    fs::permissions(folder_.path(), fs::perms(0555));
    const bool is_root = geteuid() == 0;  // who may write everywhere
    if (is_root) {
        ASSERT_EQ(seteuid(65534), 0);
    }
    const std::string error = file_error(folder_ / "new");
    if (is_root) {
        ASSERT_EQ(seteuid(0), 0);
    }
    fs::permissions(folder_.path(), fs::perms(0755));
    EXPECT_THAT(error, AllOf(HasSubstr("nothing can be written in " + folder_.path().string()),
                             HasSubstr("Permission denied")));
}

TEST_F(OutputPathTest, WhatIsWrittenAtFirstHitsNothingElse) {
    fs::create_directory(folder_ / ".new.partial");
    EXPECT_THAT(file_error(folder_ / "new"), HasSubstr(".new.partial"));
    write_text(folder_ / ".out.partial", "an input");
    OutputPlace asked = place(folder_ / "out");
    asked.inputs = {folder_ / ".out.partial"};
    EXPECT_THAT(error_of([&] { return check_output_file(asked); }), HasSubstr("one of the inputs"));
    EXPECT_EQ(check_output_file(place(folder_ / "out")), folder_ / "out") << "left by a killed process: ours";
}

TEST_F(OutputPathTest, AFolderIsReplacedOnlyIfAllInItIsOurs) {
    const fs::path out = folder_ / "out";
    fs::create_directory(out);
    write_text(out / "a.json", "");
    EXPECT_THAT(folder_error(out, {}, Overwrite::no), HasSubstr("exists already"));
    EXPECT_EQ(folder_error(out, {}), "");
    EXPECT_EQ(folder_error(out / "", {}), "");
    write_text(out / "thesis.tex", "");
    EXPECT_THAT(folder_error(out, {}), AllOf(HasSubstr("thesis.tex"), HasSubstr("not replaced")));
    fs::remove(out / "thesis.tex");
    fs::create_symlink(folder_ / "input.txt", out / "b.json");
    EXPECT_THAT(folder_error(out, {}), HasSubstr("b.json"));
    EXPECT_THAT(folder_error(folder_ / "input.txt", {}), HasSubstr("a file, and a folder is to be written"));
}

TEST_F(OutputPathTest, AFolderOfOutputAndAnInputDoNotOverlap) {
    fs::create_directories(folder_ / "model" / "inner");
    fs::create_directory_symlink("model", folder_ / "other-name");
    for (const fs::path& path : {folder_ / "model", folder_ / "other-name", folder_ / "model" / "inner",
                                 folder_ / "other-name" / "new", folder_.path()}) {
        EXPECT_THAT(folder_error(path, {folder_ / "model"}), HasSubstr("An input is never replaced")) << path;
    }
    EXPECT_EQ(folder_error(folder_ / "model-bf16", {folder_ / "model"}, Overwrite::no), "");
}

}  // namespace
}  // namespace accrue
