#include "accrue/base/file_lock.h"

#include <optional>

#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"

namespace accrue {
namespace {

class FileLockTest : public testing::Test {
protected:
    TemporaryFolder folder_;
};

// Two locks in one process exclude each other as those of two processes do.
TEST_F(FileLockTest, ASecondOneWaitsUntilTheFirstIsGone) {
    std::optional<FileLock> first(std::in_place, folder_ / "lock", [] {});
    int waited = 0;
    const FileLock second(folder_ / "lock", [&] {
        ++waited;
        first.reset();
    });
    EXPECT_EQ(waited, 1);
}

// Otherwise two processes could hold locks of one name.
TEST_F(FileLockTest, WhoWaitedForARemovedFileLocksTheNewOne) {
    std::optional<FileLock> first(std::in_place, folder_ / "lock", [] {});
    const FileLock second(folder_ / "lock", [&] {
        std::filesystem::remove(folder_ / "lock");
        first.reset();
    });
    EXPECT_THROW(FileLock(folder_ / "lock", [] { throw Error("held"); }), Error);
}

TEST_F(FileLockTest, AThrowEndsTheWaiting) {
    const FileLock first(folder_ / "lock", [] {});
    EXPECT_THROW(FileLock(folder_ / "lock", [] { throw Error("stopped"); }), Error);
}

TEST_F(FileLockTest, AFolderThatIsNotThereIsNamed) {
    try {
        const FileLock lock(folder_ / "missing" / "lock", [] {});
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("cannot lock " + (folder_ / "missing" / "lock").string()));
    }
}

TEST_F(FileLockTest, WhoIsRefusedCanReadWhoHoldsIt) {
    const FileLock first(folder_ / "lock", [] {});
    first.say("a longer text that is replaced");
    first.say("the first");
    std::string holder;
    EXPECT_THROW(FileLock(folder_ / "lock",
                          [&] {
                              holder = read_text(folder_ / "lock");
                              throw Error("held");
                          }),
                 Error);
    EXPECT_EQ(holder, "the first");
}

}  // namespace
}  // namespace accrue
