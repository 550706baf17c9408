// What commands write: never over an input, over nothing without --overwrite, and whole or not at all.

#include <csignal>

#include "tests/support.h"
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "accrue/base/file.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;

class OutputProgramTest : public ::testing::Test {
protected:
    OutputProgramTest() { write_text(folder_ / "book.txt", kBook); }

    void expect_refused(std::vector<std::string> arguments, const std::vector<std::string>& words) const {
        const ProgramResult result = run_program(arguments, folder_.path());
        EXPECT_EQ(result.exit_code, 1) << result.output;
        for (const std::string& word : words) {
            EXPECT_NE(result.output.find(word), std::string::npos) << "no \"" << word << "\" in: " << result.output;
        }
    }
    void expect_done(const std::vector<std::string>& arguments) const {
        const ProgramResult result = run_program(arguments, folder_.path());
        EXPECT_EQ(result.exit_code, 0) << result.output;
    }

    static constexpr const char* kBook = "Once upon a time there was a fox.";
    TemporaryFolder folder_;
};

TEST_F(OutputProgramTest, ATokenizerReplacesNothingUnlessAskedAndNeverItsText) {
    const std::vector<std::string> make = {"tokenizer", "train", "book.txt", "--vocabulary", "260", "--output"};
    const auto into = [&](const std::string& output, bool overwrite) {
        std::vector<std::string> arguments = make;
        arguments.push_back(output);
        if (overwrite) {
            arguments.emplace_back("--overwrite");
        }
        return arguments;
    };
    fs::create_symlink("book.txt", folder_ / "link.txt");
    for (const char* name : {"book.txt", "./book.txt", "link.txt"}) {
        expect_refused(into(name, true), {"--output", "book.txt", "never replaced"});
    }
    EXPECT_EQ(read_text(folder_ / "book.txt"), kBook);
    expect_refused(into("/dev/null", true), {"/dev/null", "a device"});
    expect_refused(into("no/such/x.json", false), {"there is no folder"});
    expect_done(into("new.json", false));
    const std::string made = read_text(folder_ / "new.json");
    expect_refused(into("new.json", false), {"new.json", "exists already", "--overwrite"});
    expect_done(into("new.json", true));
    EXPECT_EQ(read_text(folder_ / "new.json"), made);
}

TEST_F(OutputProgramTest, AResultFileIsRefusedBeforeAnythingIsMeasured) {
    write_text(folder_ / "old.json", "mine");
    ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    expect_refused({"bench", "--model", "tiny", "--json", "old.json"}, {"--json old.json", "exists already"});
    expect_refused({"bench", "--model", "tiny", "--json", "pipe", "--overwrite"}, {"a named pipe"});
    EXPECT_EQ(read_text(folder_ / "old.json"), "mine");
}

TEST_F(OutputProgramTest, AnExportedFileReplacesNoFileOfTheModel) {
    copy_model("llama", folder_ / "model", {});
    const auto into = [](const std::string& output, bool overwrite) {
        std::vector<std::string> arguments = {"export", "model", "--to", "gguf", "--output", output};
        if (overwrite) {
            arguments.emplace_back("--overwrite");
        }
        return arguments;
    };
    const std::string weights = sha256_of(folder_ / "model" / "model.safetensors");
    expect_refused(into("model/model.safetensors", true), {"model.safetensors", "never replaced"});
    expect_refused(into("model", true), {"a folder, and a file is to be written"});
    EXPECT_EQ(sha256_of(folder_ / "model" / "model.safetensors"), weights);
    write_text(folder_ / "a.gguf", "old");
    expect_refused(into("a.gguf", false), {"exists already"});
    EXPECT_EQ(read_text(folder_ / "a.gguf"), "old");
    expect_done(into("a.gguf", true));
    EXPECT_EQ(read_text(folder_ / "a.gguf").substr(0, 4), "GGUF");
    expect_refused({"export", "a.gguf", "--to", "gguf", "--output", "a.gguf", "--overwrite"}, {"never replaced"});
}

TEST_F(OutputProgramTest, AnExportedFolderReplacesOnlyAnEarlierOne) {
    copy_model("llama", folder_ / "model", {});
    const auto into = [](const std::string& output) {
        return std::vector<std::string>{"export", "model", "--to", "hf", "--output", output, "--overwrite"};
    };
    fs::create_directory_symlink("model", folder_ / "other-name");
    for (const char* name : {"model", "other-name", "model/inner", "."}) {
        expect_refused(into(name), {"An input is never replaced"});
    }
    fs::create_directory(folder_ / "thesis");
    write_text(folder_ / "thesis" / "thesis.tex", "years of work");
    expect_refused(into("thesis"), {"thesis.tex", "not replaced"});
    EXPECT_EQ(read_text(folder_ / "thesis" / "thesis.tex"), "years of work");
    expect_done({"export", "model", "--to", "hf", "--dtype", "fp16", "--output", "out"});
    const std::string before = sha256_of(folder_ / "out" / "model.safetensors");
    expect_done(into("out"));
    EXPECT_NE(sha256_of(folder_ / "out" / "model.safetensors"), before);
    EXPECT_FALSE(fs::exists(folder_ / ".out.partial"));
}

// Killed as soon as something of the new output is there: the old one is as it was, and the next attempt succeeds.
TEST_F(OutputProgramTest, AKilledExportLeavesTheOldOutputWhole) {
    copy_model("llama", folder_ / "model", {});
    for (const auto& [kind, output] : {std::pair{"gguf", "out.gguf"}, std::pair{"hf", "out"}}) {
        SCOPED_TRACE(kind);
        const fs::path path = folder_ / output;
        std::vector<std::string> arguments = {
            "export", (folder_ / "model").string(), "--to", kind, "--dtype", "fp32", "--output", path.string()};
        ASSERT_EQ(run_program(arguments).exit_code, 0);
        const fs::path weights = kind == std::string("hf") ? path / "model.safetensors" : path;
        const std::string old = sha256_of(weights);
        arguments[5] = "fp16";
        arguments.emplace_back("--overwrite");
        const fs::path aside = folder_ / cat(".", output, ".partial");
        const ProgramResult killed = signal_program(arguments, SIGKILL, [&] { return fs::exists(aside); });
        if (killed.exit_code != 0) {
            EXPECT_TRUE(sha256_of(weights) == old || !fs::exists(aside)) << "neither the old output nor the new one";
        }
        EXPECT_EQ(run_program(arguments).exit_code, 0);
        EXPECT_NE(sha256_of(weights), old);
        EXPECT_FALSE(fs::exists(aside));
    }
}

}  // namespace
}  // namespace accrue::testing
