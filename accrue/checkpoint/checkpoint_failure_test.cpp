// Checkpoints under real failures: no room, files where folders should be, a writer that is killed.
#include <algorithm>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/checkpoint/checkpoint.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Writing beyond that many bytes of a file fails with EFBIG while this lives.
class FileSizeLimit {
public:
    explicit FileSizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limited = {bytes, before_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &limited);
    }
    ~FileSizeLimit() {
        setrlimit(RLIMIT_FSIZE, &before_);
        signal(SIGXFSZ, handler_);
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;

private:
    rlimit before_{};
    sighandler_t handler_;
};

// A disk of that size at a folder, where the system allows one to be mounted.
class SmallDisk {
public:
    SmallDisk(const fs::path& folder, const char* options) : folder_(folder) {
        fs::create_directories(folder);
        mounted_ = mount("tmpfs", folder.c_str(), "tmpfs", 0, options) == 0;
    }
    ~SmallDisk() {
        if (mounted_) {
            umount2(folder_.c_str(), MNT_DETACH);
        }
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;
    [[nodiscard]] bool mounted() const { return mounted_; }

private:
    fs::path folder_;
    bool mounted_ = false;
};

class CheckpointFailureTest : public testing::Test {
protected:
    static void write(const fs::path& folder, int64_t step, size_t numbers, float value = 1) {
        const std::vector<float> weights(numbers, value);
        write_checkpoint(
            folder, step,
            {{"a_small", {}},
             {"weights", {{"w", "F32", {static_cast<int64_t>(numbers)}, std::as_bytes(std::span(weights))}}}},
            cat("{\"value\":", value, "}"));
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

    // Replaces step-1 again and again and tells each time, until somebody stops this process.
    [[noreturn]] void write_for_ever(int notices) const {
        try {
            for (float version = 0;; ++version) {
                write(folder_.path(), 1, 5000, version);
                if (::write(notices, "x", 1) != 1) {
                    _exit(1);
                }
            }
        } catch (...) {
            _exit(2);
        }
    }

    // Only step-1 is there, whole, and nothing beside it.
    static void expect_only_step_1(const fs::path& folder, const std::string& state) {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(folder)) {
            names.push_back(entry.path().filename().string());
        }
        EXPECT_THAT(names, ElementsAre("step-1"));
        EXPECT_EQ(CheckpointReader(checkpoint_path(folder, 1)).state_json(), state);
    }

    TemporaryFolder folder_;
};

TEST_F(CheckpointFailureTest, NoRoomKeepsTheOlderCheckpoints) {
    write(folder_.path(), 1, 10);
    const FileSizeLimit limit(4096);
    const auto expected =
        AllOf(HasSubstr("cannot write"), HasSubstr("weights.safetensors"), HasSubstr("File too large"));
    EXPECT_THAT(error_of([&] { write(folder_.path(), 2, 10'000); }), expected);
    expect_only_step_1(folder_.path(), "{\"value\":1}");
    EXPECT_THAT(error_of([&] { write(folder_.path(), 1, 10'000, 2); }), expected);
    expect_only_step_1(folder_.path(), "{\"value\":1}");
}

TEST_F(CheckpointFailureTest, AFullDiskKeepsTheOlderCheckpointsAndGoesOnWhenThereIsRoom) {
    const SmallDisk disk(folder_ / "disk", "size=256k");
    if (!disk.mounted()) {
        GTEST_SKIP() << "a small disk cannot be mounted here";
    }
    const fs::path folder = folder_ / "disk" / "checkpoints";
    write(folder, 1, 1000);
    EXPECT_THAT(error_of([&] { write(folder, 2, 1'000'000); }),
                AllOf(HasSubstr("weights.safetensors"), HasSubstr("No space left")));
    expect_only_step_1(folder, "{\"value\":1}");
    write(folder, 1, 1000, 3);
    expect_only_step_1(folder, "{\"value\":3}");
}

TEST_F(CheckpointFailureTest, AReadOnlyDiskIsAnErrorThatNamesThePath) {
    const SmallDisk disk(folder_ / "disk", "size=256k");
    if (!disk.mounted()) {
        GTEST_SKIP() << "a small disk cannot be mounted here";
    }
    const fs::path folder = folder_ / "disk" / "checkpoints";
    write(folder, 1, 10);
    ASSERT_EQ(mount(nullptr, (folder_ / "disk").c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    EXPECT_THAT(error_of([&] { write(folder, 2, 10); }), AllOf(HasSubstr(".step-2.partial"), HasSubstr("Read-only")));
    EXPECT_THAT(error_of([&] { remove_old_checkpoints(folder, 1); }), "no error");
    expect_only_step_1(folder, "{\"value\":1}");
}

TEST_F(CheckpointFailureTest, AFileWhereTheFolderShouldBeIsAnError) {
    write_text(folder_ / "file", "text");
    EXPECT_THAT(error_of([&] { write(folder_ / "file", 1, 10); }),
                AllOf(HasSubstr("cannot make the folder"), HasSubstr("file")));
    EXPECT_EQ(read_text(folder_ / "file"), "text");
    EXPECT_TRUE(list_checkpoints(folder_ / "file").empty());
}

// The writer replaces one checkpoint over and over; whenever it dies, one of its versions must be there, whole.
TEST_F(CheckpointFailureTest, AKilledWriterLeavesAWholeCheckpoint) {
    for (int survived = 1; survived <= 12; ++survived) {
        int ends[2];
        ASSERT_EQ(pipe(ends), 0);
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            close(ends[0]);
            write_for_ever(ends[1]);
        }
        close(ends[1]);
        char letter = 0;
        for (int i = 0; i < survived; ++i) {
            ASSERT_EQ(read(ends[0], &letter, 1), 1);
        }
        kill(child, SIGKILL);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
        close(ends[0]);
        ASSERT_THAT(list_checkpoints(folder_.path()), ElementsAre(1));
        const CheckpointReader reader(checkpoint_path(folder_.path(), 1));
        std::vector<float> weights(5000);
        reader.file("weights").read_floats("w", weights);
        EXPECT_EQ(reader.state_json(), cat("{\"value\":", weights.front(), "}"));
        EXPECT_EQ(weights, std::vector<float>(5000, weights.front()));
    }
    write(folder_.path(), 1, 10, 7);
    expect_only_step_1(folder_.path(), "{\"value\":7}");
}

}  // namespace
}  // namespace accrue
