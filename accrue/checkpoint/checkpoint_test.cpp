#include "accrue/checkpoint/checkpoint.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/checkpoint/manifest.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CheckpointTest : public testing::Test {
protected:
    // A checkpoint whose numbers and state tell its step and version.
    void write(int64_t step, float version = 0) const {
        const std::vector<float> numbers = {static_cast<float>(step), version, 3};
        const std::vector<float> moments(100, version);
        write_checkpoint(folder_, step,
                         {{"weights", {{"w", "F32", {3}, std::as_bytes(std::span(numbers))}}},
                          {"moments", {{"m", "F32", {10, 10}, std::as_bytes(std::span(moments))}}}},
                         cat("{\"step\":", step, ",\"version\":", version, "}"));
    }

    [[nodiscard]] std::vector<float> weights(int64_t step) const {
        std::vector<float> numbers(3);
        CheckpointReader(checkpoint_path(folder_, step)).file("weights").read_floats("w", numbers);
        return numbers;
    }

    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> result;
        for (const auto& entry : fs::directory_iterator(folder_)) {
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

    [[nodiscard]] std::string reading_error(int64_t step) const {
        return error_of([&] { const CheckpointReader reader(checkpoint_path(folder_, step)); });
    }

    // Changes one byte in the middle of a file.
    static void damage(const fs::path& path) {
        std::string text = read_text(path);
        text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
        write_text(path, text);
    }

    TemporaryFolder root_;
    fs::path folder_ = root_ / "run" / "checkpoints";
};

TEST_F(CheckpointTest, WhatIsWrittenComesBack) {
    write(5, 2);
    const CheckpointReader reader(checkpoint_path(folder_, 5));
    EXPECT_EQ(reader.state_json(), "{\"step\":5,\"version\":2}");
    EXPECT_TRUE(reader.has("weights"));
    EXPECT_TRUE(reader.has("moments"));
    EXPECT_FALSE(reader.has("sums"));
    EXPECT_THAT(weights(5), ElementsAre(5, 2, 3));
    EXPECT_THAT(reader.file("moments").at("m").shape, ElementsAre(10, 10));
    EXPECT_THAT(error_of([&] { (void)reader.file("sums"); }),
                AllOf(HasSubstr("no file sums"), HasSubstr("It has: moments, weights")));
    EXPECT_THAT(names(), ElementsAre("step-5"));
}

TEST_F(CheckpointTest, EqualContentsGiveEqualFiles) {
    write(5);
    const std::string first = read_text(checkpoint_path(folder_, 5) / kManifestName);
    fs::remove_all(folder_);
    write(5);
    EXPECT_EQ(read_text(checkpoint_path(folder_, 5) / kManifestName), first);
}

TEST_F(CheckpointTest, StepsAreListedAscending) {
    EXPECT_THAT(list_checkpoints(folder_), IsEmpty());
    for (const int64_t step : {100, 9, 20}) {
        write(step);
    }
    fs::create_directories(folder_ / "step-7x");
    fs::create_directories(folder_ / "step-07");
    fs::create_directories(folder_ / "other");
    EXPECT_THAT(list_checkpoints(folder_), ElementsAre(9, 20, 100));
}

TEST_F(CheckpointTest, OneChangedByteIsFound) {
    for (const char* name : {"weights.safetensors", "moments.safetensors", "state.json"}) {
        write(5);
        damage(checkpoint_path(folder_, 5) / name);
        EXPECT_THAT(list_checkpoints(folder_), ElementsAre(5)) << "sizes are right";
        EXPECT_THAT(reading_error(5), AllOf(HasSubstr(checkpoint_path(folder_, 5).string() + " is damaged"),
                                            HasSubstr(name), HasSubstr("has checksum"), HasSubstr("manifest says"),
                                            HasSubstr("delete it to go on from the one before")));
    }
}

TEST_F(CheckpointTest, ATruncatedOrMissingFileIsFound) {
    write(4);
    write(5);
    const fs::path file = checkpoint_path(folder_, 5) / "weights.safetensors";
    const int64_t bytes = InputFile(file).size();
    cut_file(file, bytes - 1);
    EXPECT_THAT(list_checkpoints(folder_), ElementsAre(4));
    EXPECT_THAT(reading_error(5),
                AllOf(HasSubstr("is damaged"), HasSubstr(cat("has ", bytes - 1, " bytes, manifest says ", bytes))));
    fs::remove(file);
    EXPECT_THAT(list_checkpoints(folder_), ElementsAre(4));
    EXPECT_THAT(reading_error(5), HasSubstr("file weights.safetensors is missing"));
}

TEST_F(CheckpointTest, WithoutAManifestItIsNotWhole) {
    write(5);
    const fs::path manifest = checkpoint_path(folder_, 5) / kManifestName;
    for (const char* text : {"", "{", "[]", "{\"format\":1}", "{\"format\":2,\"files\":{}}",
                             "{\"format\":1,\"files\":{\"../x\":{\"bytes\":1,\"checksum\":\"0\"}}}"}) {
        write_text(manifest, text);
        EXPECT_THAT(list_checkpoints(folder_), IsEmpty()) << text;
        EXPECT_THAT(reading_error(5), HasSubstr("is damaged: it has no manifest.json that can be read")) << text;
    }
    fs::remove(manifest);
    EXPECT_THAT(list_checkpoints(folder_), IsEmpty());
    EXPECT_THAT(reading_error(5), HasSubstr("has no manifest.json"));
    EXPECT_THAT(reading_error(6), AllOf(HasSubstr("step-6"), HasSubstr("has no manifest.json")));
}

TEST_F(CheckpointTest, AnExistingStepIsReplaced) {
    write(5, 1);
    write(5, 2);
    EXPECT_THAT(weights(5), ElementsAre(5, 2, 3));
    fs::remove(checkpoint_path(folder_, 5) / kManifestName);
    write(5, 3);
    EXPECT_THAT(weights(5), ElementsAre(5, 3, 3));
    EXPECT_THAT(names(), ElementsAre("step-5"));
}

TEST_F(CheckpointTest, LeftoversOfAKilledWriterAreCleaned) {
    write(5);
    fs::create_directories(folder_ / ".step-6.partial");
    write_text(folder_ / ".step-6.partial" / "weights.safetensors", "half");
    EXPECT_THAT(list_checkpoints(folder_), ElementsAre(5));
    write(7);
    EXPECT_THAT(names(), ElementsAre("step-5", "step-7"));
}

TEST_F(CheckpointTest, AReplacedCheckpointComesBackIfNothingTookItsPlace) {
    write(5, 1);
    fs::rename(folder_ / "step-5", folder_ / ".step-5.replaced");
    write(6);
    EXPECT_THAT(list_checkpoints(folder_), ElementsAre(5, 6));
    EXPECT_THAT(weights(5), ElementsAre(5, 1, 3));
    fs::copy(folder_ / "step-5", folder_ / ".step-5.replaced", fs::copy_options::recursive);
    write(7);
    EXPECT_THAT(names(), ElementsAre("step-5", "step-6", "step-7"));
}

TEST_F(CheckpointTest, RemovalKeepsTheNewest) {
    for (const int64_t step : {1, 2, 3, 10}) {
        write(step);
    }
    remove_old_checkpoints(folder_, 4);
    EXPECT_THAT(list_checkpoints(folder_), ElementsAre(1, 2, 3, 10));
    remove_old_checkpoints(folder_, 2);
    EXPECT_THAT(names(), ElementsAre("step-10", "step-3"));
    remove_old_checkpoints(folder_, 0);
    EXPECT_THAT(names(), ElementsAre("step-10"));
    remove_old_checkpoints(root_ / "none", 1);
}

// A damaged newer one must not push out the last that can be read.
TEST_F(CheckpointTest, RemovalCountsOnlyWholeCheckpoints) {
    write(1);
    write(2);
    fs::remove(checkpoint_path(folder_, 2) / kManifestName);
    remove_old_checkpoints(folder_, 1);
    EXPECT_THAT(names(), ElementsAre("step-1", "step-2"));
}

// A damaged one from a run's earlier life lies behind where it is now; it must not push out what can be read.
TEST_F(CheckpointTest, RemovalLeavesWhatLiesAheadOfTheRun) {
    for (const int64_t step : {1, 2, 3, 10}) {
        write(step);
    }
    remove_old_checkpoints(folder_, 1, 3);
    EXPECT_THAT(names(), ElementsAre("step-10", "step-3"));
}

TEST_F(CheckpointTest, ASurveySaysWhatIsDamaged) {
    write(4);
    write(5);
    fs::create_directories(checkpoint_path(folder_, 6));
    fs::remove(checkpoint_path(folder_, 4) / "moments.safetensors");
    const auto found = survey_checkpoints(folder_);
    ASSERT_EQ(found.size(), 3U);
    EXPECT_EQ(found[0].step, 4);
    EXPECT_EQ(found[0].damage, "file moments.safetensors is missing");
    EXPECT_EQ(found[1].damage, std::nullopt);
    EXPECT_EQ(found[2].damage, "it has no manifest.json that can be read");
}

TEST_F(CheckpointTest, ThreadsWriteAndReadTheSameAsOneAlone) {
    write(5, 2);
    const std::string manifest = read_text(checkpoint_path(folder_, 5) / kManifestName);
    Pool pool(3);
    int64_t told = 0;
    const LongWork work{.pool = &pool, .told = [&](int64_t done, int64_t total) { told = total - done; }};
    const std::vector<float> numbers = {5, 2, 3};
    const std::vector<float> moments(100, 2);
    told = -1;
    write_checkpoint(folder_, 5,
                     {{"weights", {{"w", "F32", {3}, std::as_bytes(std::span(numbers))}}},
                      {"moments", {{"m", "F32", {10, 10}, std::as_bytes(std::span(moments))}}}},
                     "{\"step\":5,\"version\":2}", work);
    EXPECT_EQ(read_text(checkpoint_path(folder_, 5) / kManifestName), manifest);
    EXPECT_LE(told, 0) << "all of it was counted";
    EXPECT_EQ(damage_of(checkpoint_path(folder_, 5), work), std::nullopt);
    EXPECT_EQ(told, 0);
    damage(checkpoint_path(folder_, 5) / "moments.safetensors");
    EXPECT_THAT(damage_of(checkpoint_path(folder_, 5), work).value_or(""),
                HasSubstr("file moments.safetensors has checksum"));
}

// The manifest and files as version 0.1 wrote them, with their checksums.
TEST_F(CheckpointTest, CheckpointsOfOlderProgramsCanBeRead) {
    const fs::path old = checkpoint_path(folder_, 7);
    fs::create_directories(old);
    write_text(old / "state.json", "{\"step\":7}\n");
    write_text(old / kManifestName,
               R"({"files":{"state.json":{"bytes":11,"checksum":"efd5e3cbbe319386e93d2e2d26ec1694"}},"format":1})");
    EXPECT_EQ(CheckpointReader(old).state_json(), "{\"step\":7}\n");
}

TEST_F(CheckpointTest, TheStateAloneIsReadOnlyWhereItIsRight) {
    write(5);
    EXPECT_FALSE(is_state_damaged(checkpoint_path(folder_, 5)));
    damage(checkpoint_path(folder_, 5) / "weights.safetensors");
    EXPECT_EQ(read_checkpoint_state(checkpoint_path(folder_, 5)), "{\"step\":5,\"version\":0}");
    damage(checkpoint_path(folder_, 5) / "state.json");
    EXPECT_TRUE(is_state_damaged(checkpoint_path(folder_, 5)));
    EXPECT_THAT(error_of([&] { (void)read_checkpoint_state(checkpoint_path(folder_, 5)); }),
                AllOf(HasSubstr("is damaged"), HasSubstr("file state.json has checksum")));
    write_text(checkpoint_path(folder_, 5) / kManifestName, R"({"files":{},"format":1})");
    EXPECT_THAT(error_of([&] { (void)read_checkpoint_state(checkpoint_path(folder_, 5)); }),
                HasSubstr("its manifest has no state.json"));
}

// A run that goes on may never write another one, and must find all there are.
TEST_F(CheckpointTest, SettlingRemovesHalvesAndBringsBackWhatStoodAside) {
    write(3);
    write(5);
    std::filesystem::rename(checkpoint_path(folder_, 5), folder_ / ".step-5.replaced");
    std::filesystem::create_directories(folder_ / ".step-7.partial");
    settle_checkpoints(folder_);
    EXPECT_THAT(list_checkpoints(folder_), ElementsAre(3, 5));
    EXPECT_FALSE(std::filesystem::exists(folder_ / ".step-7.partial"));
}

TEST_F(CheckpointTest, AFolderThatCannotBeReadIsNotAnEmptyOne) {
    std::filesystem::create_directories(folder_);
    std::filesystem::create_symlink("loop", folder_ / "loop");
    EXPECT_THAT(error_of([&] { (void)survey_checkpoints(folder_ / "loop"); }), HasSubstr("cannot read the folder"));
    EXPECT_THAT(list_checkpoints(folder_ / "missing"), IsEmpty());
}

TEST_F(CheckpointTest, TwoFilesOfOneNameAreAnError) {
    EXPECT_THAT(error_of([&] {
                    write_checkpoint(folder_, 1, {{"a", {}}, {"a", {}}}, "{}");
                }),
                HasSubstr("two files named a.safetensors"));
    EXPECT_THAT(names(), IsEmpty());
}

}  // namespace
}  // namespace accrue
