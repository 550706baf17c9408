#include "accrue/base/replace_folder.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ReplaceFolderTest : public testing::Test {
protected:
    // Everything in the folder, hidden or not.
    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const auto& entry : fs::directory_iterator(folder_.path())) {
            found.push_back(entry.path().filename().string());
        }
        return found;
    }
    void put(const std::string& text) const {
        replace_folder(place_, [&](const fs::path& aside) { write_text(aside / "file", text); });
    }

    TemporaryFolder folder_;
    fs::path place_ = folder_ / "model";
};

TEST_F(ReplaceFolderTest, TheNewOneTakesTheOldOnesPlaceAndNothingIsLeftBeside) {
    put("old");
    write_text(place_ / "another", "");
    put("new");
    EXPECT_EQ(read_text(place_ / "file"), "new");
    EXPECT_FALSE(fs::exists(place_ / "another"));
    EXPECT_THAT(names(), ElementsAre("model"));
}

TEST_F(ReplaceFolderTest, TheOldOneIsThereUntilTheNewOneIsWhole) {
    put("old");
    replace_folder(place_, [&](const fs::path& aside) {
        write_text(aside / "file", "new");
        EXPECT_EQ(read_text(place_ / "file"), "old");
    });
    EXPECT_EQ(read_text(place_ / "file"), "new");
}

TEST_F(ReplaceFolderTest, WhatCannotBeWrittenLeavesTheOldOne) {
    put("old");
    EXPECT_THROW(replace_folder(place_,
                                [](const fs::path& aside) {
                                    write_text(aside / "file", "new");
                                    throw Error("no room");
                                }),
                 Error);
    EXPECT_EQ(read_text(place_ / "file"), "old");
    EXPECT_THAT(names(), ElementsAre("model"));
}

TEST_F(ReplaceFolderTest, WhatAKilledProcessLeftIsClearedUp) {
    fs::create_directories(folder_ / ".model.partial");
    write_text(folder_ / ".model.partial" / "stale", "");
    put("new");
    EXPECT_FALSE(fs::exists(place_ / "stale"));
    EXPECT_THAT(names(), ElementsAre("model"));
}

TEST_F(ReplaceFolderTest, AFolderThatStoodAsideComesBack) {
    put("old");
    fs::rename(place_, folder_ / ".model.replaced");
    EXPECT_THROW(replace_folder(place_, [](const fs::path&) { throw Error("no room"); }), Error);
    EXPECT_EQ(read_text(place_ / "file"), "old");
    EXPECT_THAT(names(), ElementsAre("model"));
}

TEST_F(ReplaceFolderTest, AFileWhereTheFolderAroundItShouldBeIsNamed) {
    write_text(folder_ / "file", "");
    EXPECT_THAT([&] { replace_folder(folder_ / "file" / "model", [](const fs::path&) {}); },
                ThrowsMessage<Error>(AllOf(HasSubstr("cannot "), HasSubstr((folder_ / "file").string()))));
}

}  // namespace
}  // namespace accrue
