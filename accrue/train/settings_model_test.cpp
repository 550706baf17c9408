// What [model] may say: a preset, changed or not, a family, or a folder.

#include <fstream>

#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/train/inputs.h"
#include "accrue/train/settings.h"

namespace accrue {
namespace {

Settings model_of(const std::vector<std::string>& overrides) {
    return read_settings("", overrides);
}

std::string error_of(const std::vector<std::string>& overrides) {
    try {
        (void)model_of(overrides);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(ModelSettingsTest, AShapeChangesThePresetAndAFamilyDisplacesIt) {
    const Settings changed = model_of({"model.layers=8"});
    EXPECT_EQ(changed.model.preset, "tiny");
    EXPECT_EQ(name_of(changed.model), "tiny (layers 8)");
    EXPECT_EQ(run_model(changed, nullptr, 0)->blocks(), 8);
    const Settings alone = model_of({"model.family=qwen3", "model.layers=2", "model.width=64", "model.heads=4"});
    EXPECT_EQ(alone.model.preset, "");
    EXPECT_EQ(alone.optimizer.rate, 3e-4) << "the rate of tiny belongs to tiny";
    EXPECT_EQ(name_of(alone.model), "qwen3 (layers 2, width 64, heads 4)");
    const ByteTokenizer bytes;
    const auto model = run_model(alone, &bytes, 0);
    EXPECT_EQ(model->family(), "qwen3");
    EXPECT_EQ(model->vocabulary(), 320) << "257 words in a multiple of 64";
    EXPECT_EQ(name_of(model_of({}).model), "tiny");
    EXPECT_EQ(name_of(model_of({"model.from=/model"}).model), "/model");
}

TEST(ModelSettingsTest, APresetOnTopDisplacesTheFamilyOfAFileAndKeepsItsSizes) {
    const TemporaryFolder folder;
    std::ofstream(folder / "run.toml") << "[model]\nfamily = 'llama'\nlayers = 2\nwidth = 64\nheads = 4\n";
    const Settings settings = read_settings(folder / "run.toml", {"model.preset=gpt2-124m"});
    EXPECT_EQ(settings.model.preset, "gpt2-124m");
    EXPECT_EQ(settings.model.shape.family, "");
    EXPECT_EQ(settings.model.shape.layers, 2);
}

TEST(ModelSettingsTest, WhatExcludesEachOtherIsRefused) {
    EXPECT_EQ(error_of({"model.preset=tiny", "model.family=llama"}),
              "--set model.family=llama: model.family and model.preset (--set model.preset=tiny) exclude each other. "
              "Give one of them.");
    EXPECT_EQ(
        error_of({"model.from=/model", "model.layers=8"}),
        "--set model.layers=8: model.layers cannot go with model.from (--set model.from=/model), whose config.json "
        "has the shape. Leave one of them out.");
    EXPECT_EQ(
        error_of({"model.from=/model", "model.family=llama"}).find("--set model.family=llama: model.family cannot"),
        0U);
    EXPECT_EQ(error_of({"model.from=/model", "model.tied=true"}).find("--set model.tied=true: model.tied cannot"), 0U);
    EXPECT_EQ(error_of({"model.from=/model", "model.layers=0", "model.dropout=0", "model.tied=\"\""}), "")
        << "left open, as run.toml writes it";
    EXPECT_EQ(
        error_of({"model.weights=loaded"}),
        "model.weights is \"loaded\", but there is no model.from to load them from. Name a folder there, or leave "
        "model.weights at \"auto\".");
}

TEST(ModelSettingsTest, ValuesThatNoShapeHasAreRefused) {
    EXPECT_EQ(error_of({"model.layers=-1"}),
              "--set model.layers=-1: model.layers must be at least 0 and at most 1000000000, but is -1.");
    EXPECT_EQ(error_of({"model.dropout=1"}),
              "--set model.dropout=1: model.dropout must be at least 0 and below 1, but is 1.");
    EXPECT_EQ(error_of({"model.tied=yes"}),
              "--set model.tied=yes: model.tied must be true, false or \"\", but what follows the = is not one.");
    EXPECT_EQ(error_of({"model.tied=1"}),
              "--set model.tied=1: model.tied must be true, false or \"\", but an integer (1) was found.");
    EXPECT_EQ(
        error_of({"model.family=mamba"}),
        "--set model.family=mamba: model.family must be \"gpt2\", \"llama\", \"mistral\", \"qwen2\", \"qwen3\" or "
        "\"\", but is \"mamba\".");
    EXPECT_EQ(error_of({"model.weights=old"}),
              "--set model.weights=old: model.weights must be \"auto\", \"fresh\" or \"loaded\", but is \"old\".");
}

}  // namespace
}  // namespace accrue
