#include "accrue/base/file.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/temporary_folder.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class FileTest : public testing::Test {
protected:
    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> result;
        for (const auto& entry : fs::directory_iterator(folder_.path())) {
            result.push_back(entry.path().filename().string());
        }
        std::sort(result.begin(), result.end());
        return result;
    }

    template <class Action>
    static std::string error_of(Action action) {
        try {
            action();
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    TemporaryFolder folder_;
};

TEST_F(FileTest, TextComesBackAsItWasWritten) {
    const std::string text("one\0two\n", 8);
    write_text(folder_ / "a.txt", text);
    EXPECT_EQ(read_text(folder_ / "a.txt"), text);
    write_text(folder_ / "a.txt", "");
    EXPECT_EQ(read_text(folder_ / "a.txt"), "");
    EXPECT_THAT(names(), testing::ElementsAre("a.txt"));
}

// Long enough that the device is given some of it on the way.
TEST_F(FileTest, ALongFileComesBackAsItWasWritten) {
    const std::string piece = std::string(999'999, 'x') + "\n";
    {
        OutputFile file(folder_ / "long");
        for (int i = 0; i < 70; ++i) {
            file.write(piece);
        }
        file.close_synced();
    }
    const InputFile file(folder_ / "long");
    ASSERT_EQ(file.size(), 70'000'000);
    std::string read(piece.size(), ' ');
    for (const int64_t number : {0, 33, 34, 69}) {
        file.read(number * 1'000'000, std::as_writable_bytes(std::span(read)));
        EXPECT_TRUE(read == piece) << number;
    }
}

TEST_F(FileTest, AFailedWriteLeavesTheOldTextAndNothingAside) {
    fs::create_directories(folder_ / "a.txt");
    EXPECT_THAT(error_of([&] { write_text(folder_ / "a.txt", "new"); }),
                AllOf(HasSubstr("cannot write"), HasSubstr("a.txt"), HasSubstr("directory")));
    EXPECT_TRUE(fs::is_directory(folder_ / "a.txt"));
    EXPECT_THAT(names(), testing::ElementsAre("a.txt"));
}

TEST_F(FileTest, AMissingFileIsNamed) {
    const auto expected = AllOf(HasSubstr("missing.txt"), HasSubstr("No such file"));
    EXPECT_THAT(error_of([&] { InputFile file(folder_ / "missing.txt"); }), expected);
    EXPECT_THAT(error_of([&] { (void)read_text(folder_ / "missing.txt"); }), expected);
    EXPECT_THAT(error_of([&] { cut_file(folder_ / "missing.txt", 0); }), expected);
    EXPECT_THAT(error_of([&] { OutputFile file(folder_ / "missing.txt" / "file"); }), expected);
    EXPECT_THAT(error_of([&] { sync_folder(folder_ / "missing.txt"); }), expected);
}

TEST_F(FileTest, AFolderOrADeviceIsNoInput) {
    EXPECT_THAT(error_of([&] { InputFile file(folder_.path()); }), HasSubstr("it is a folder"));
    EXPECT_THAT(error_of([&] { InputFile file("/dev/null"); }), HasSubstr("a regular file is needed"));
    EXPECT_THAT(error_of([&] { (void)read_text(folder_.path()); }), HasSubstr("it is a folder"));
    EXPECT_THAT(error_of([&] { (void)read_text("/dev/zero"); }), HasSubstr("a regular file is needed"));
}

// Nobody writes into the pipe: whoever waited for that would wait for ever.
TEST_F(FileTest, APipeOrASocketIsRefusedWithoutWaiting) {
    ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    (folder_ / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    for (const char* name : {"pipe", "socket"}) {
        const auto expected = AllOf(HasSubstr((folder_ / name).string()), HasSubstr("a regular file is needed"));
        EXPECT_THAT(error_of([&] { InputFile file(folder_ / name); }), expected);
        EXPECT_THAT(error_of([&] { (void)read_text(folder_ / name); }), expected);
    }
    close(listener);
}

TEST_F(FileTest, FilesThatTellNoSizeAreReadToTheirEnd) {
    EXPECT_THAT(read_text("/proc/self/status"), HasSubstr("VmRSS"));
}

TEST_F(FileTest, ReadsAtAnyPlace) {
    write_text(folder_ / "digits", "0123456789");
    const InputFile file(folder_ / "digits");
    EXPECT_EQ(file.size(), 10);
    std::array<std::byte, 3> piece{};
    file.read(7, piece);
    EXPECT_EQ(piece[0], std::byte{'7'});
    EXPECT_EQ(piece[2], std::byte{'9'});
    file.read(10, {});
}

TEST_F(FileTest, ReadingPastTheEndIsAnError) {
    write_text(folder_ / "digits", "0123456789");
    const InputFile file(folder_ / "digits");
    std::array<std::byte, 3> piece{};
    for (const int64_t offset : {int64_t{8}, int64_t{11}, int64_t{-1}, INT64_MAX}) {
        EXPECT_THAT(error_of([&] { file.read(offset, piece); }),
                    AllOf(HasSubstr("digits"), HasSubstr("the file ends at 10")));
    }
}

TEST_F(FileTest, AMovedFileStillReads) {
    write_text(folder_ / "a", "a");
    write_text(folder_ / "bc", "bc");
    InputFile file(folder_ / "a");
    InputFile moved(std::move(file));
    moved = InputFile(folder_ / "bc");
    std::array<std::byte, 1> piece{};
    moved.read(1, piece);
    EXPECT_EQ(piece[0], std::byte{'c'});
    EXPECT_EQ(moved.size(), 2);
    EXPECT_EQ(moved.path(), folder_ / "bc");
}

TEST_F(FileTest, AFullDiskIsAnErrorThatNamesTheFile) {
    if (!fs::exists("/dev/full")) {
        GTEST_SKIP() << "this system has no /dev/full";
    }
    OutputFile file("/dev/full");
    EXPECT_THAT(error_of([&] { file.write("text"); }), AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
}

TEST_F(FileTest, CuttingShortensAndNeverExtends) {
    write_text(folder_ / "digits", "0123456789");
    cut_file(folder_ / "digits", 4);
    EXPECT_EQ(read_text(folder_ / "digits"), "0123");
    EXPECT_THAT(error_of([&] { cut_file(folder_ / "digits", 5); }),
                AllOf(HasSubstr("to 5 bytes"), HasSubstr("it has 4")));
    EXPECT_THAT(error_of([&] { cut_file(folder_ / "digits", -1); }), HasSubstr("to -1 bytes"));
    EXPECT_EQ(read_text(folder_ / "digits"), "0123");
}

}  // namespace
}  // namespace accrue
