#include "accrue/base/temporary_folder.h"

#include <cstdlib>
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFolderTest, TwoAtATimeAreTwoFolders) {
    const TemporaryFolder one;
    const TemporaryFolder two;
    EXPECT_NE(one.path(), two.path());
    EXPECT_TRUE(fs::is_empty(one.path()));
    EXPECT_EQ(one / "name", one.path() / "name");
}

TEST(TemporaryFolderTest, ItGoesWithAllItHolds) {
    std::optional<TemporaryFolder> folder(std::in_place);
    const fs::path path = folder->path();
    fs::create_directories(path / "a" / "b");
    std::ofstream(path / "a" / "file") << "text";
    folder.reset();
    EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryFolderTest, WhereThereIsNoPlaceTheMessageNamesTmpdir) {
    const char* before = std::getenv("TMPDIR");
    const std::optional<std::string> kept = before == nullptr ? std::nullopt : std::optional<std::string>(before);
    setenv("TMPDIR", "/there/is/no/such/folder", 1);
    try {
        const TemporaryFolder folder;
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("Set TMPDIR to a folder"));
    }
    kept ? setenv("TMPDIR", kept->c_str(), 1) : unsetenv("TMPDIR");
}

}  // namespace
}  // namespace accrue
