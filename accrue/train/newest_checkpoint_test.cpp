#include "accrue/train/newest_checkpoint.h"

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
using testing::IsEmpty;

class NewestCheckpointTest : public testing::Test {
protected:
    void write(int64_t step) const {
        const std::vector<float> numbers(1000, static_cast<float>(step));
        write_checkpoint(folder_, step, {{"weights", {{"w", "F32", {1000}, std::as_bytes(std::span(numbers))}}}},
                         cat("{\"step\":", step, "}"));
    }

    [[nodiscard]] fs::path weights(int64_t step) const {
        return checkpoint_path(folder_, step) / "weights.safetensors";
    }

    // One byte in the middle of a file: its size stays right.
    static void change_a_byte(const fs::path& path) {
        std::string text = read_text(path);
        text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
        write_text(path, text);
    }

    // The state of the one that was chosen; "none"; or the error.
    [[nodiscard]] std::string chosen() {
        notes_.clear();
        try {
            const auto found =
                open_newest_checkpoint(folder_, [this](const std::string& line) { notes_.push_back(line); });
            return found ? found->state_json() : "none";
        } catch (const Error& error) {
            return error.what();
        }
    }

    TemporaryFolder root_;
    fs::path folder_ = root_ / "checkpoints";
    std::vector<std::string> notes_;
};

TEST_F(NewestCheckpointTest, TheNewestIsTakenWithoutAWord) {
    EXPECT_EQ(chosen(), "none");
    write(5);
    write(10);
    EXPECT_EQ(chosen(), "{\"step\":10}");
    EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(NewestCheckpointTest, EveryKindOfDamageIsSaidAndTheOneBeforeIsTaken) {
    const auto expect_step_5_because = [&](const std::string& damage) {
        EXPECT_EQ(chosen(), "{\"step\":5}");
        EXPECT_THAT(notes_, ElementsAre(AllOf(HasSubstr(checkpoint_path(folder_, 10).string() + " is damaged: "),
                                              HasSubstr(damage), HasSubstr("Step 5 is used instead"),
                                              HasSubstr("replaced when the run comes to step 10 again"))));
    };
    write(5);
    write(10);
    change_a_byte(weights(10));
    expect_step_5_because("file weights.safetensors has checksum ");
    cut_file(weights(10), 100);
    expect_step_5_because("file weights.safetensors has 100 bytes, manifest says ");
    fs::remove(weights(10));
    expect_step_5_because("file weights.safetensors is missing");
    fs::remove_all(checkpoint_path(folder_, 10));
    fs::create_directories(checkpoint_path(folder_, 10));
    expect_step_5_because("it has no manifest.json that can be read");
    EXPECT_TRUE(fs::is_directory(checkpoint_path(folder_, 10))) << "nothing is deleted";
}

TEST_F(NewestCheckpointTest, OldDamageIsNobodysConcern) {
    write(5);
    write(10);
    fs::remove(weights(5));
    EXPECT_EQ(chosen(), "{\"step\":10}");
    EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(NewestCheckpointTest, WhereAllAreDamagedTheErrorNamesEachAndAWayOut) {
    write(5);
    write(10);
    change_a_byte(weights(10));
    fs::remove(weights(5));
    EXPECT_THAT(chosen(), AllOf(HasSubstr("no checkpoint in " + folder_.string() + " can be used"),
                                HasSubstr("step-10 (file weights.safetensors has checksum "),
                                HasSubstr("step-5 (file weights.safetensors is missing)"),
                                HasSubstr("Put back a copy of one of them"), HasSubstr("from the beginning")));
    EXPECT_THAT(notes_, IsEmpty());
}

}  // namespace
}  // namespace accrue
