#include "accrue/train/run_claim.h"

#include <fstream>

#include <gmock/gmock.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RunClaimTest : public ::testing::Test {
protected:
    RunClaimTest() { settings_.run.folder = (folder_ / "run").string(); }

    void put(const fs::path& name, const std::string& text = "x") const {
        fs::create_directories((folder_ / name).parent_path());
        std::ofstream(folder_ / name) << text;
    }
    [[nodiscard]] RunClaim claim(Overwrite overwrite = Overwrite::no, const fs::path& settings_file = {}) const {
        return RunClaim::of_new_run(settings_, settings_file, overwrite);
    }
    [[nodiscard]] std::string refusal(Overwrite overwrite = Overwrite::no, const fs::path& settings_file = {}) const {
        try {
            (void)claim(overwrite, settings_file);
            return "";
        } catch (const Error& error) {
            return error.what();
        }
    }
    // All that lies in the run folder, by name.
    [[nodiscard]] std::vector<std::string> contents() const {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(folder_ / "run")) {
            names.push_back(entry.path().filename().string());
        }
        std::sort(names.begin(), names.end());
        return names;
    }

    TemporaryFolder folder_;
    Settings settings_;
};

TEST_F(RunClaimTest, ASecondClaimIsRefusedAndNamesTheFirst) {
    const RunClaim first = claim();
    EXPECT_THAT(refusal(), HasSubstr("is in use by process " + std::to_string(getpid()) + " on "));
    put("run/run.toml", to_toml(settings_));
    try {
        (void)RunClaim::of_run(folder_ / "run", Overwrite::no);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("is in use by process "));
    }
}

TEST_F(RunClaimTest, AClaimThatIsGivenUpLeavesNothing) {
    { const RunClaim given_up = claim(); }
    EXPECT_FALSE(fs::exists(folder_ / "run"));
    fs::create_directories(folder_ / "run");
    { const RunClaim given_up = claim(); }
    EXPECT_THAT(contents(), ::testing::IsEmpty());
}

TEST_F(RunClaimTest, BeginWritesTheSettingsAndTheEndRemovesTheLock) {
    {
        RunClaim run = claim();
        run.begin(settings_);
        EXPECT_THAT(contents(), ::testing::ElementsAre("run.lock", "run.toml"));
    }
    EXPECT_THAT(contents(), ::testing::ElementsAre("run.toml"));
    EXPECT_EQ(read_settings(folder_ / "run/run.toml", {}), settings_);
}

TEST_F(RunClaimTest, WhatAnUnfinishedStartLeftIsStartedAfresh) {
    put("run/run.toml", to_toml(settings_));
    put("run/.run.toml.partial");
    put("run/run.lock");
    put("run/metrics.jsonl");
    put("run/tokenizer/tokenizer.json");
    put("run/checkpoints/.step-3.partial/weights.safetensors");
    RunClaim run = claim();
    run.begin(settings_);
    EXPECT_THAT(contents(), ::testing::ElementsAre("run.lock", "run.toml"));
}

TEST_F(RunClaimTest, AnythingElseIsRefusedAndStays) {
    for (const char* name : {"tokenizer/tokenizer.json", "metrics.jsonl", "model/model.safetensors", "report.html",
                             "notes.txt", "checkpoints/step-3/state.json", "checkpoints/mine",
                             "checkpoints/.step-3.replaced/manifest.json", ".hidden"}) {
        put(fs::path("run") / name);
        EXPECT_THAT(refusal(), HasSubstr(cat("is not empty: it holds ", fs::path(name).begin()->string(), ".")));
        EXPECT_TRUE(fs::exists(folder_ / "run" / name));
        fs::remove_all(folder_ / "run");
    }
    put("run/run.toml", "[window]\nsamples = 3\n");  // a person's, not a run's
    EXPECT_THAT(refusal(), HasSubstr("it holds run.toml."));
    EXPECT_EQ(read_text(folder_ / "run/run.toml"), "[window]\nsamples = 3\n");
}

TEST_F(RunClaimTest, OverwriteReplacesWhatARunLeftAndNothingElse) {
    put("run/model/model.safetensors");
    put("run/report.html");
    put("run/notes.txt");
    put("run/checkpoints/step-3/state.json");
    { const RunClaim given_up = claim(Overwrite::yes); }
    EXPECT_TRUE(fs::exists(folder_ / "run/model/model.safetensors")) << "nothing goes before the run begins";
    RunClaim run = claim(Overwrite::yes);
    EXPECT_FALSE(run.goes_on());
    run.begin(settings_);
    EXPECT_THAT(contents(), ::testing::ElementsAre("notes.txt", "run.lock", "run.toml"));
}

TEST_F(RunClaimTest, EachTermIsHigherThanAllBeforeWhateverTheClockSays) {
    constexpr int64_t kNow = 1'700'000'000'000;
    {
        RunClaim run = claim();
        EXPECT_EQ(run.begin_term(kNow), kNow);
        EXPECT_EQ(read_text(folder_ / "run/run.term"), cat(kNow, "\n"));
        run.begin(settings_);
    }
    EXPECT_EQ(RunClaim::of_run(folder_ / "run", Overwrite::no).begin_term(kNow), kNow + 1) << "the same millisecond";
    EXPECT_EQ(RunClaim::of_run(folder_ / "run", Overwrite::no).begin_term(kNow - 1000), kNow + 2) << "a clock put back";
    EXPECT_EQ(claim(Overwrite::no).begin_term(5), kNow + 3) << "begun anew, when it had no checkpoint";
    EXPECT_EQ(claim(Overwrite::yes).begin_term(kNow + 100), kNow + 100);
}

TEST_F(RunClaimTest, ATermGoesWithAFolderThatWasMadeForNothing) {
    EXPECT_EQ(claim().begin_term(7), 7);
    EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(RunClaimTest, ATermThatIsNoneIsNamed) {
    for (const char* const text :
         {"", "x\n", "7", "7 8\n", "-3\n", "9223372036854775807\n", "99999999999999999999\n"}) {
        put("run/run.term", text);
        EXPECT_THAT([&] { (void)claim().begin_term(1); },
                    ::testing::ThrowsMessage<Error>(HasSubstr("run.term should hold the number of the last start")))
            << text;
        fs::remove_all(folder_ / "run");
    }
}

TEST_F(RunClaimTest, WhatARunReadsIsNeverReplaced) {
    put("run/model/config.json");
    put("run/tokenizer/tokenizer.json");
    put("run/report.html");
    put("data/one.txt");
    const Settings plain = settings_;
    const auto refusal_with = [&](const auto& change) {
        settings_ = plain;
        change(settings_);
        return refusal(Overwrite::yes);
    };
    EXPECT_THAT(refusal_with([&](Settings& s) { s.model.from = (folder_ / "run/model").string(); }),
                HasSubstr("model.from is " + (folder_ / "run/model").string() + ", which the run in"));
    fs::create_directory_symlink(folder_ / "run", folder_ / "link");
    EXPECT_THAT(refusal_with([&](Settings& s) { s.model.from = (folder_ / "link/model").string(); }),
                HasSubstr("would replace"));
    EXPECT_THAT(
        refusal_with([&](Settings& s) { s.data.tokenizer = (folder_ / "run/tokenizer/tokenizer.json").string(); }),
        HasSubstr("data.tokenizer is"));
    EXPECT_THAT(refusal_with([&](Settings& s) {
                    s.data.train = {(folder_ / "data").string()};
                    s.run.folder = (folder_ / "data/run").string();
                }),
                HasSubstr("its own files would become data"));
    settings_ = plain;
    put("run/run.toml", "[run]\n");
    EXPECT_THAT(refusal(Overwrite::yes, folder_ / "run/run.toml"), HasSubstr("accrue train --resume"));
    EXPECT_EQ(read_text(folder_ / "run/run.toml"), "[run]\n");
}

TEST_F(RunClaimTest, AModelWithoutCheckpointsIsNotTrainedOver) {
    put("run/run.toml", to_toml(settings_));
    put("run/model/model.safetensors");
    try {
        (void)RunClaim::of_run(folder_ / "run", Overwrite::no);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("holds a model but no checkpoint"));
    }
    EXPECT_NO_THROW((void)RunClaim::of_run(folder_ / "run", Overwrite::yes));
}

TEST_F(RunClaimTest, AContinuedRunStaysInItsFolder) {
    put("run/run.toml", to_toml(settings_));
    const RunClaim run = RunClaim::of_run(folder_ / "run", Overwrite::no);
    EXPECT_EQ(run.settings({"window.samples=5"}).window.samples, 5);
    EXPECT_THROW((void)run.settings({"run.folder=elsewhere"}), Error);
    EXPECT_EQ(read_text(folder_ / "run/run.toml"), to_toml(settings_)) << "asking writes nothing";
}

}  // namespace
}  // namespace accrue
