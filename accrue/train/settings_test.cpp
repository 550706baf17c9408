#include "accrue/train/settings.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/base/test_places.h"
#include "accrue/train/settings_table.h"

namespace accrue {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A folder of its own for each test, with a file run.toml.
class SettingsTest : public testing::Test {
protected:
    [[nodiscard]] std::filesystem::path write(const std::string& text) const {
        std::ofstream(folder_ / "run.toml") << text;
        return folder_ / "run.toml";
    }
    [[nodiscard]] Settings read(const std::string& text, const std::vector<std::string>& overrides = {}) const {
        return read_settings(write(text), overrides);
    }
    // The error of a file, without the folder in front of run.toml; "" if there is none.
    [[nodiscard]] std::string error(const std::string& text, const std::vector<std::string>& overrides = {}) const {
        try {
            (void)read(text, overrides);
            return "";
        } catch (const Error& error) {
            return without_folder(error.what());
        }
    }
    [[nodiscard]] std::string without_folder(std::string text) const {
        const std::string prefix = folder_.path().string() + "/";
        for (size_t place = text.find(prefix); place != std::string::npos; place = text.find(prefix)) {
            text.erase(place, prefix.size());
        }
        return text;
    }

    TemporaryFolder folder_;
};

std::string override_error(const std::string& text) {
    try {
        (void)read_settings("", {text});
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

// A word and not a path, in a file and on the command line, also when a resolved file is read again.
TEST_F(SettingsTest, TheTokenizerOfBytesIsNoPath) {
    const Settings settings = read("[data]\ntokenizer = \"byte\"\n");
    EXPECT_EQ(settings.data.tokenizer, "byte");
    EXPECT_EQ(read(to_toml(settings)).data.tokenizer, "byte");
    EXPECT_EQ(read_settings("", {"data.tokenizer=byte"}).data.tokenizer, "byte");
    EXPECT_EQ(read("[data]\ntokenizer = \"bytes\"\n").data.tokenizer, (folder_ / "bytes").string());
    EXPECT_EQ(read("[run]\nfolder = \"byte\"\n").run.folder, (folder_ / "byte").string());
}

// A rename breaks files that people have: change this list only on purpose.
TEST_F(SettingsTest, TheListOfKeysIsFrozen) {
    std::string keys;
    for (const Setting& setting : settings_table()) {
        keys += setting.key() + " ";
    }
    EXPECT_EQ(
        keys,
        "model.preset model.from model.weights model.family model.layers model.width model.heads model.key_heads "
        "model.ffn model.positions model.vocabulary model.tied model.dropout "
        "data.train data.validation data.order data.sequence_length data.tokenizer data.layout data.reset_attention "
        "data.validation_fraction data.chat_format data.skip_bad "
        "window.samples window.tokens window.last window.grain_samples window.micro_batch_grains "
        "optimizer.name optimizer.rate optimizer.rate_samples optimizer.rate_rule optimizer.beta1 optimizer.beta2 "
        "optimizer.beta2_half_life_tokens optimizer.epsilon optimizer.momentum optimizer.nesterov "
        "optimizer.weight_decay optimizer.clip_norm optimizer.moments "
        "schedule.kind schedule.steps schedule.warmup_steps schedule.final_fraction schedule.decay_fraction "
        "compute.device compute.dtype compute.threads compute.sums compute.memory compute.recompute "
        "compute.host_state compute.instruction_set compute.loss_scale compute.loss_scale_steps "
        "workers.state workers.copies "
        "workers.heartbeat_seconds workers.mixed workers.certificates workers.token workers.insecure_network "
        "run.folder run.seed run.checkpoint_steps run.keep_checkpoints run.evaluate_steps ");
}

TEST_F(SettingsTest, WithoutAFileEverySettingHasTheDefaultOfTheHeader) {
    Settings expected;
    expected.optimizer.rate = 1.5e-3;  // the preset tiny's own
    EXPECT_EQ(read_settings("", {}), expected);
    EXPECT_EQ(read(""), expected);
}

TEST_F(SettingsTest, OnlyTheTinyPresetHasARateOfItsOwn) {
    EXPECT_EQ(read("[optimizer]\nrate = 2e-5\n").optimizer.rate, 2e-5);
    EXPECT_EQ(read("[model]\npreset = \"gpt2-124m\"\n").optimizer.rate, 3e-4);
    EXPECT_EQ(read("[model]\nfrom = \"folder\"\n").optimizer.rate, 3e-4);
}

TEST_F(SettingsTest, DefaultsAreAllowedValues) {
    EXPECT_EQ(read(to_toml(Settings())), Settings());
}

// Every field differs from its default, so a key that is forgotten in the table, or points to another field, fails
// here.
TEST_F(SettingsTest, WritingAndReadingGivesTheSameSettings) {
    const Settings settings{
        .model = {.preset = "gpt2-124m",
                  .from = "",
                  .weights = InitialWeights::fresh,
                  .shape = {.family = "",
                            .layers = 1,
                            .width = 2,
                            .heads = 3,
                            .key_heads = 4,
                            .ffn = 5,
                            .positions = 6,
                            .vocabulary = 7,
                            .tied = false,
                            .dropout = 0.5}},
        .data = {.train = {"/a \"b\"\\c.txt", "/d\n\x7f.txt"},
                 .validation = {"/\u00fc.safetensors"},
                 .order = SampleOrder::Kind::sequential,
                 .sequence_length = 7,
                 .tokenizer = "/t.json",
                 .layout = Layout::padded,
                 .reset_attention = true,
                 .validation_fraction = 0.25,
                 .chat_format = ChatFormat::plain,
                 .skip_bad = true},
        .window = {.samples = 0,
                   .tokens = 524288,
                   .last = WindowSize::Last::dropped,
                   .grain_samples = 3,
                   .micro_batch_grains = 2},
        .optimizer = {.name = OptimizerKind::sgd,
                      .rate = 0.1 + 0.2,
                      .rate_samples = 9,
                      .rate_rule = RateRule::linear,
                      .beta1 = 0.0,
                      .beta2 = 0.999,
                      .beta2_half_life_tokens = 10000000,
                      .epsilon = 1e-300,
                      .momentum = 1.0 / 3,
                      .nesterov = true,
                      .weight_decay = 1e22,
                      .clip_norm = 5,
                      .moments = MomentFormat::eight_bits},
        .schedule = {.kind = Schedule::Kind::wsd,
                     .steps = 1000000000000,
                     .warmup_steps = 0,
                     .final_fraction = 1,
                     .decay_fraction = 0},
        .compute = {.device = DeviceKind::reference,
                    .dtype = DType::fp32,
                    .threads = 4,
                    .sums = SumKind::fp32,
                    .memory = parse_byte_size("1.5 TB"),
                    .recompute = Recompute::block,
                    .host_state = HostState::sums,
                    .instruction_set = "avx512-bf16",
                    .loss_scale = 32,
                    .loss_scale_steps = 10},
        .workers = {.state = WorkersState::everywhere,
                    .copies = 3,
                    .heartbeat_seconds = 3,
                    .mixed = true,
                    .certificates = "/certificates",
                    .token = "",  // never written
                    .insecure_network = true},
        .run = {.folder = "/run",
                .seed = 9223372036854775807,
                .checkpoint_steps = 1,
                .keep_checkpoints = 0,
                .evaluate_steps = 2},
    };
    EXPECT_EQ(read(to_toml(settings)), settings);
    Settings from_folder = settings;
    from_folder.model = {.preset = "", .from = "/model", .weights = InitialWeights::loaded, .shape = {}};
    EXPECT_EQ(read(to_toml(from_folder)), from_folder);
    Settings of_family = settings;
    of_family.model.preset = "";
    of_family.model.shape.family = "llama";
    of_family.model.shape.tied = true;
    EXPECT_EQ(read(to_toml(of_family)), of_family);
}

TEST_F(SettingsTest, ASecretIsReadButNeverWritten) {
    const Settings settings = read("[workers]\ntoken = 'bread and salt'\n");
    EXPECT_EQ(settings.workers.token, "bread and salt");
    EXPECT_THAT(to_toml(settings), AllOf(HasSubstr("token = \"\""), Not(HasSubstr("bread"))));
}

TEST_F(SettingsTest, AFileAndOverridesAreTakenInOrder) {
    const Settings settings =
        read("[window]\nsamples = 8\n[optimizer]\nrate = 1\n[run]\nseed = 3\n",
             {"run.seed=4", "run.seed=5", "compute.dtype=fp32", "optimizer.name=\"sgd\"", "optimizer.nesterov=true"});
    EXPECT_EQ(settings.window.samples, 8);
    EXPECT_EQ(settings.optimizer.rate, 1.0);
    EXPECT_EQ(settings.run.seed, 5);
    EXPECT_EQ(settings.compute.dtype, DType::fp32);
    EXPECT_EQ(settings.optimizer.name, OptimizerKind::sgd);
    EXPECT_TRUE(settings.optimizer.nesterov);
    EXPECT_EQ(settings.data.sequence_length, 256);
}

TEST_F(SettingsTest, PathsInAFileAreRelativeToItAndOthersToTheCurrentFolder) {
    const Settings settings = read("model.from = 'm/../model'\n[data]\ntrain = ['a.txt', '/b.txt']\n",
                                   {"data.validation=c.txt", "run.folder=runs/x"});
    EXPECT_EQ(settings.model.from, (folder_ / "model").string());
    EXPECT_EQ(settings.data.train, (std::vector<std::string>{(folder_ / "a.txt").string(), "/b.txt"}));
    EXPECT_EQ(settings.data.validation, std::vector<std::string>{(std::filesystem::current_path() / "c.txt").string()});
    EXPECT_EQ(settings.run.folder, (std::filesystem::current_path() / "runs/x").string());
}

TEST_F(SettingsTest, ASetWordNeedsNoQuotesWhereATextIsExpected) {
    EXPECT_EQ(read_settings("", {"run.folder=/a b#c=d"}).run.folder, "/a b#c=d");
    EXPECT_EQ(read_settings("", {"run.folder="}).run.folder, "");
    EXPECT_EQ(read_settings("", {R"(data.train=["/a.txt", "/b.txt"])"}).data.train.size(), 2U);
}

TEST_F(SettingsTest, OnePartOfAPairDisplacesTheDefaultOfTheOther) {
    const Settings from_folder = read("model.from = '/model'\n");
    EXPECT_EQ(from_folder.model.from, "/model");
    EXPECT_EQ(from_folder.model.preset, "");
    const Settings by_tokens = read("[window]\ntokens = 4096\n");
    EXPECT_EQ(by_tokens.window.tokens, 4096);
    EXPECT_EQ(by_tokens.window.samples, 0);
}

TEST_F(SettingsTest, OnePartOfAPairInAnOverrideDisplacesTheOtherInTheFile) {
    const std::string file = "model.preset = 'tiny'\nwindow.tokens = 4096\n";
    const Settings settings = read(file, {"model.from=/model", "window.samples=3"});
    EXPECT_EQ(settings.model.preset, "");
    EXPECT_EQ(settings.model.from, "/model");
    EXPECT_EQ(settings.window.samples, 3);
    EXPECT_EQ(settings.window.tokens, 0);
}

TEST_F(SettingsTest, BothPartsOfAPairAreRefused) {
    EXPECT_EQ(error("[model]\npreset = 'tiny'\nfrom = '/model'\n"),
              "run.toml, line 3: model.from and model.preset (run.toml, line 2) exclude each other. Give one of them.");
    EXPECT_EQ(
        error("[window]\nsamples = 4\ntokens = 4096\n"),
        "run.toml, line 3: window.tokens and window.samples (run.toml, line 2) exclude each other. Give one of them.");
    EXPECT_EQ(error("", {"window.samples=4", "window.tokens=5"}),
              "--set window.tokens=5: window.tokens and window.samples (--set window.samples=4) exclude each other. "
              "Give one of them.");
}

TEST_F(SettingsTest, NeitherPartOfAPairIsRefused) {
    EXPECT_EQ(error("window.samples = 0\n"),
              "window.samples and window.tokens are both 0, so that a window is empty. Give one of them.");
    EXPECT_EQ(error("model.preset = ''\n"),
              "model.preset, model.from and model.family are all empty. Give one of them.");
}

TEST_F(SettingsTest, AnUnknownKeyIsRefusedWithTheNearest) {
    EXPECT_EQ(error("[window]\nsample = 32\n"),
              "run.toml, line 2: window.sample is not a setting. Did you mean window.samples?");
    EXPECT_EQ(error("[optimizer]\n\nlearning_rate = 1\n"),
              "run.toml, line 3: optimizer.learning_rate is not a setting. Did you mean optimizer.rate?");
    EXPECT_EQ(error("[run]\nsteps = 5\n"),
              "run.toml, line 2: run.steps is not a setting. Did you mean schedule.steps?");
    EXPECT_EQ(error("sequence_length = 5\n"),
              "run.toml, line 1: sequence_length is not a setting. Did you mean data.sequence_length?");
    EXPECT_EQ(override_error("widnow.samples=3"),
              "--set widnow.samples=3: widnow.samples is not a setting. Did you mean window.samples?");
}

TEST_F(SettingsTest, AnUnknownSectionIsRefusedWithTheNearest) {
    EXPECT_EQ(error("[run]\nseed = 1\n[windows]\nsamples = 3\n"),
              "run.toml, line 3: [windows] is not a section. Did you mean [window]?");
    EXPECT_EQ(error("window = 3\n"), "run.toml, line 1: window must be a section, but an integer (3) was found.");
}

TEST_F(SettingsTest, AWrongTypeIsRefusedWithBothTypes) {
    EXPECT_EQ(error("[window]\nsamples = '32'\n"),
              "run.toml, line 2: window.samples must be an integer, but a text (\"32\") was found.");
    EXPECT_EQ(error("[window]\nsamples = 32.5\n"),
              "run.toml, line 2: window.samples must be an integer, but a number with a fraction (32.5) was found.");
    EXPECT_EQ(error("[window.samples]\n"),
              "run.toml, line 1: window.samples must be an integer, but a section was found.");
    EXPECT_EQ(error("[optimizer]\nrate = true\n"),
              "run.toml, line 2: optimizer.rate must be a number, but a truth value (true) was found.");
    EXPECT_EQ(error("[optimizer]\nnesterov = 1\n"),
              "run.toml, line 2: optimizer.nesterov must be true or false, but an integer (1) was found.");
    EXPECT_EQ(error("[run]\nfolder = 2024-01-31\n"),
              "run.toml, line 2: run.folder must be a text in quotes, but a date or time (2024-01-31) was found.");
    EXPECT_EQ(error("[run]\nfolder = ['a']\n"),
              "run.toml, line 2: run.folder must be a text in quotes, but a list was found.");
    EXPECT_EQ(error("[data]\ntrain = 'a.txt'\n"),
              "run.toml, line 2: data.train must be a list of texts in quotes, but a text (\"a.txt\") was found.");
    EXPECT_EQ(error("[data]\ntrain = ['a.txt',\n 3]\n"),
              "run.toml, line 3: data.train must be a list of texts in quotes, but an integer (3) was found.");
    EXPECT_EQ(override_error("run.folder=3"),
              "--set run.folder=3: run.folder must be a text in quotes, but an integer (3) was found.");
}

TEST_F(SettingsTest, AnOverrideThatIsNoValueIsRefused) {
    EXPECT_EQ(override_error("window.samples"), "--set window.samples: a setting is given as section.key=value.");
    EXPECT_EQ(override_error("window.samples=many"),
              "--set window.samples=many: window.samples must be an integer, but what follows the = is not one.");
    EXPECT_EQ(override_error("run.folder=\"a"),
              "--set run.folder=\"a: run.folder must be a text in quotes, but what follows the = is not one.");
    EXPECT_EQ(override_error("run.seed=1\nx=2"),
              "--set run.seed=1\nx=2: run.seed must be an integer, but what follows the = is not one.");
}

TEST_F(SettingsTest, ANumberOutOfBoundsIsRefusedWithTheBounds) {
    EXPECT_EQ(error("[window]\nsamples = -1\n"),
              "run.toml, line 2: window.samples must be at least 0 and at most 1000000000, but is -1.");
    EXPECT_EQ(error("[data]\nsequence_length = 0\n"),
              "run.toml, line 2: data.sequence_length must be at least 1 and at most 16777216, but is 0.");
    EXPECT_EQ(error("[optimizer]\nbeta2 = 1\n"),
              "run.toml, line 2: optimizer.beta2 must be at least 0 and below 1, but is 1.");
    EXPECT_EQ(error("[optimizer]\nepsilon = 0.0\n"),
              "run.toml, line 2: optimizer.epsilon must be above 0, but is 0.0.");
    EXPECT_EQ(error("[optimizer]\nrate = nan\n"),
              "run.toml, line 2: optimizer.rate must be a finite number, but is nan.");
    EXPECT_EQ(error("[optimizer]\nclip_norm = inf\n"),
              "run.toml, line 2: optimizer.clip_norm must be a finite number, but is inf.");
    EXPECT_EQ(override_error("run.seed=-1"), "--set run.seed=-1: run.seed must be at least 0, but is -1.");
}

TEST_F(SettingsTest, ATextThatIsNotInTheListIsRefusedWithTheList) {
    EXPECT_EQ(error("[data]\norder = 'random'\n"),
              "run.toml, line 2: data.order must be \"shuffled\" or \"sequential\", but is \"random\".");
    EXPECT_EQ(
        override_error("model.preset=huge"),
        "--set model.preset=huge: model.preset must be \"tiny\", \"gpt2-124m\", \"llama-350m\", \"llama-1.5b\" or "
        "\"\", but is \"huge\".");
    EXPECT_THAT(override_error("optimizer.name=lion"), HasSubstr("must be \"adamw\" or \"sgd\", but is \"lion\"."));
    EXPECT_THAT(override_error("optimizer.rate_rule=x"), HasSubstr("must be \"none\", \"sqrt\" or \"linear\""));
    EXPECT_THAT(override_error("schedule.kind=x"),
                HasSubstr("must be \"constant\", \"linear\", \"cosine\" or \"wsd\""));
    EXPECT_THAT(override_error("compute.device=cuda:x"),
                HasSubstr("must be \"auto\", \"cpu\", \"cuda\", \"cuda:1\" (and so on) or \"reference\""));
    EXPECT_THAT(override_error("compute.dtype=fp8"), HasSubstr("must be \"bf16\", \"fp32\" or \"fp16\""));
    EXPECT_THAT(override_error("compute.loss_scale=1000"),
                HasSubstr("compute.loss_scale is 1000, but must be a power of two, such as 512."));
    EXPECT_THAT(override_error("compute.sums=double"),
                HasSubstr("must be \"exact\", \"fp32\", \"bf16\", \"bf16-stochastic\" or \"bf16-kahan\""));
    for (const char* size : {"lots", "16 apples", "-1GiB", "0GiB", "\"\""}) {
        EXPECT_THAT(override_error(cat("compute.memory=", size)),
                    HasSubstr("must be \"auto\" or a size like \"16GiB\", but is"));
    }
    EXPECT_THAT(override_error("compute.recompute=all"),
                HasSubstr("must be \"auto\", \"nothing\", \"cheap\" or \"block\""));
    EXPECT_THAT(override_error("optimizer.moments=4bit"), HasSubstr("must be \"fp32\" or \"8bit\""));
    EXPECT_THAT(override_error("compute.instruction_set=neon"),
                HasSubstr("must be \"\", \"avx2\", \"avx512\", \"avx512-bf16\" or \"amx\""));
}

TEST_F(SettingsTest, EveryNumberFormatIsAccepted) {
    for (const auto& [word, sums] : words_for(SumKind())) {
        EXPECT_EQ(read_settings({}, {cat("compute.sums=", word)}).compute.sums, sums) << word;
    }
    for (const auto& [word, moments] : words_for(MomentFormat())) {
        for (const auto& [name, optimizer] : words_for(OptimizerKind())) {
            const Settings settings =
                read_settings({}, {cat("optimizer.moments=", word), cat("optimizer.name=", name)});
            EXPECT_EQ(settings.optimizer.moments, moments) << word;
            EXPECT_EQ(settings.optimizer.name, optimizer) << name;
        }
    }
}

TEST_F(SettingsTest, WhatIsLeftOpenIsAuto) {
    const Settings settings = read_settings(
        "", {"compute.recompute=auto", "compute.memory=auto", "model.weights=auto", "data.chat_format=auto"});
    EXPECT_FALSE(settings.compute.recompute || settings.compute.memory || settings.model.weights ||
                 settings.data.chat_format);
    EXPECT_EQ(read_settings("", {"compute.recompute=cheap"}).compute.recompute, Recompute::cheap);
    EXPECT_EQ(read_settings("", {"compute.memory=2KiB"}).compute.memory->bytes, 2048);
}

TEST_F(SettingsTest, DataOfAnUnknownKindIsRefused) {
    for (const char* name : {"a.txt", "b.jsonl", "c.bin", "d.safetensors", "e.jsonl.gz", "f.txt.zst", "*.txt", "."}) {
        EXPECT_EQ(error(cat("[data]\ntrain = ['", name, "']\n")), "") << name;
    }
    EXPECT_EQ(error("[data]\ntrain = ['b.docx']\n"),
              "run.toml, line 2: data.train names \"b.docx\", but a file must end in .txt, .jsonl, .bin or "
              ".safetensors, perhaps with .gz or .zst behind it.");
    EXPECT_THAT(error("[data]\nvalidation = ['b.docx.gz']\n"), HasSubstr("data.validation names \"b.docx.gz\""));
}

TEST_F(SettingsTest, AWarmupLongerThanTheRunIsRefused) {
    EXPECT_EQ(
        error("[schedule]\nsteps = 10\nwarmup_steps = 11\n"),
        "run.toml, line 3: schedule.warmup_steps is 11, but schedule.steps is only 10. The warmup must end within "
        "the run.");
}

// Otherwise a short run would have to know a default.
TEST_F(SettingsTest, TheDefaultWarmupShrinksWithTheRun) {
    EXPECT_EQ(read_settings("", {"schedule.steps=5"}).schedule.warmup_steps, 5);
    EXPECT_EQ(read_settings("", {"schedule.steps=1000"}).schedule.warmup_steps, 20);
}

TEST_F(SettingsTest, ASyntaxErrorNamesFileLineAndColumn) {
    EXPECT_THAT(error("[window]\nsamples = = 3\n"), HasSubstr("run.toml, line 2, column 11 is not valid TOML: "));
    EXPECT_THAT(error("[run]\nseed = 1\nseed = 2\n"), HasSubstr("run.toml, line 3, column "));
}

TEST_F(SettingsTest, AMissingFileIsNamed) {
    try {
        (void)read_settings(folder_ / "none.toml", {});
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(without_folder(error.what()), "The settings file none.toml does not exist or is not a file.");
    }
}

TEST_F(SettingsTest, HelpHasALineForEveryKeyWithItsDefaultAndWhatIsAllowed) {
    std::istringstream lines(describe_settings());
    std::string line;
    for (const Setting& setting : settings_table()) {
        ASSERT_TRUE(std::getline(lines, line)) << setting.key();
        EXPECT_THAT(line, testing::StartsWith(setting.key() + " = " + setting.value_text(Settings()) + " "));
        EXPECT_THAT(line, HasSubstr(std::string(setting.meaning)));
        EXPECT_THAT(line, HasSubstr(setting.allowed()));
    }
    EXPECT_FALSE(std::getline(lines, line));
}

// On failure: replace the block in the page by the text that the test expects.
TEST_F(SettingsTest, WithoutANearKeyThereIsNoGuess) {
    EXPECT_EQ(override_error("early_stopping=3"),
              "--set early_stopping=3: early_stopping is not a setting. accrue train --help lists all settings with "
              "their meaning.");
    EXPECT_THAT(override_error("window.batch_size=3"),
                AllOf(HasSubstr("There are window.samples, window.tokens"), Not(HasSubstr("Did you mean"))));
    EXPECT_THAT(error("[distributed]\nnodes = 3\n"),
                AllOf(HasSubstr("There are model, data, window"), Not(HasSubstr("Did you mean"))));
}

}  // namespace
}  // namespace accrue
