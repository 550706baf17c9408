#include "tests/soaking/job.h"

#include "tests/support.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/documents/stories.h"

namespace accrue::soaking {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A token for each printable character: as many as the small models have room for.
std::string letter_tokenizer() {
    Json vocabulary = {{"Ġ", 0}, {"Ċ", 1}};  // how byte-level tokenizers spell a space and a line end
    for (char letter = '!'; letter <= '~'; ++letter) {
        vocabulary[std::string(1, letter)] = vocabulary.size();
    }
    const Json end = {{"id", vocabulary.size()}, {"content", "<|endoftext|>"},
                      {"special", true},         {"single_word", false},
                      {"lstrip", false},         {"rstrip", false},
                      {"normalized", false}};
    const Json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    return Json{{"version", "1.0"},
                {"truncation", nullptr},
                {"padding", nullptr},
                {"added_tokens", Json::array({end})},
                {"normalizer", nullptr},
                {"pre_tokenizer", byte_level},
                {"post_processor", nullptr},
                {"decoder", byte_level},
                {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}}
        .dump();
}

std::string quoted(const fs::path& path) {
    return "\"" + path.string() + "\"";
}

void choose_small_model(Dice& dice, const fs::path& folder, Job& job) {
    const std::string name =
        dice.one_of<std::string>({"gpt2", "gpt2", "llama", "llama-tied", "llama3-rope", "qwen2", "qwen3"});
    KeyValues config;
    if (name == "gpt2" && dice.one_in(2)) {
        config = {{"resid_pdrop", "0.1"}, {"embd_pdrop", "0.1"}, {"attn_pdrop", "0.1"}};
    }
    testing::copy_model(name, folder / "model", config);
    job.settings["model.from"] = quoted(folder / "model");
    job.description = name + (config.empty() ? "" : " with dropout");
}

void choose_rows(Dice& dice, const fs::path& folder, Job& job) {
    testing::write_ragged_data(folder / "rows.safetensors",
                               {.samples = dice.between(20, 60), .seed = static_cast<uint64_t>(dice.between(1, 1000))});
    testing::write_ragged_data(folder / "validation.safetensors", {.samples = 5, .seed = 9});
    job.settings["data.train"] = "[" + quoted(folder / "rows.safetensors") + "]";
    job.settings["data.validation"] = "[" + quoted(folder / "validation.safetensors") + "]";
    job.description += ", rows of ids";
}

enum class Text { plain, documents, conversations };

std::string line_of(Text kind, const std::string& words) {
    switch (kind) {
        case Text::plain:
            return words + "\n\n";
        case Text::documents:
            return Json{{"text", words}}.dump() + "\n";
        case Text::conversations:
            return Json{{"messages",
                         {{{"role", "user"}, {"content", "Hi."}}, {{"role", "assistant"}, {"content", words}}}}}
                       .dump() +
                   "\n";
    }
    return "";
}

// Two files for the token cache; their names as a list.
std::string write_text_files(Dice& dice, const fs::path& folder, Text kind) {
    std::string names;
    for (const char* name : {"one", "two"}) {
        std::string text;
        for (int64_t document = 0; document < 12; ++document) {
            const auto story = static_cast<uint64_t>(dice.between(0, 100000));
            text += line_of(kind, stories(story, 150).substr(0, static_cast<size_t>(dice.between(20, 150))));
        }
        const fs::path path = folder / cat(name, kind == Text::plain ? ".txt" : ".jsonl");
        write_text(path, text);
        names += (names.empty() ? "" : ", ") + quoted(path);
    }
    return "[" + names + "]";
}

void choose_text(Dice& dice, const fs::path& folder, Job& job) {
    KeyValues& settings = job.settings;
    const Text kind = dice.one_of<Text>({Text::plain, Text::documents, Text::conversations});
    settings["data.train"] = write_text_files(dice, folder, kind);
    settings["data.sequence_length"] = cat(dice.between(kind == Text::conversations ? 28 : 12, 32));
    settings["data.layout"] =
        kind == Text::conversations || (kind == Text::documents && dice.one_in(2)) ? "padded" : "packed";
    if (kind == Text::plain && dice.one_in(2)) {
        settings["data.reset_attention"] = "true";
    }
    if (kind == Text::conversations) {
        settings["data.chat_format"] = "plain";
    }
    if (kind == Text::documents && dice.one_in(2)) {
        settings["data.validation_fraction"] = "0.3";
    }
    job.description += kind == Text::conversations ? ", conversations" : ", text " + settings["data.layout"];
}

void choose_window(Dice& dice, Job& job) {
    KeyValues& settings = job.settings;
    if (dice.one_in(3)) {
        settings["window.tokens"] = cat(dice.between(30, 150));
    } else {
        settings["window.samples"] = cat(dice.between(3, 10));
    }
    settings["window.grain_samples"] = cat(dice.between(1, 3));
    settings["data.order"] = dice.one_of<std::string>({"shuffled", "shuffled", "sequential"});
}

void choose_training(Dice& dice, Job& job) {
    KeyValues& settings = job.settings;
    settings["compute.dtype"] = dice.one_of<std::string>({"fp32", "bf16"});
    settings["optimizer.name"] = dice.one_of<std::string>({"adamw", "adamw", "sgd"});
    settings["optimizer.moments"] = dice.one_of<std::string>({"fp32", "8bit"});
    settings["optimizer.rate"] = "1e-2";
    settings["schedule.kind"] = dice.one_of<std::string>({"constant", "linear", "cosine", "wsd"});
    settings["schedule.warmup_steps"] = cat(dice.between(0, 3));
    settings["run.seed"] = cat(dice.between(0, 1000));
    settings["run.evaluate_steps"] = cat(dice.between(0, 4));
    job.description += fmt::format(", {}, {} with {} moments", settings["compute.dtype"], settings["optimizer.name"],
                                   settings["optimizer.moments"]);
}

}  // namespace

Job make_job(Dice& dice, const fs::path& folder) {
    Job job;
    // The built-in model and stories take as long as twenty of the small ones.
    const bool built_in = dice.one_in(16);
    if (built_in) {
        job.description = "tiny on built-in stories";
        job.settings["data.sequence_length"] = "16";
    } else {
        choose_small_model(dice, folder, job);
        if (dice.one_in(2)) {
            choose_rows(dice, folder, job);
        } else {
            write_text(folder / "model" / "tokenizer.json", letter_tokenizer());
            choose_text(dice, folder, job);
        }
    }
    choose_window(dice, job);
    choose_training(dice, job);
    job.settings["schedule.steps"] = cat(built_in ? dice.between(3, 4) : dice.between(4, 16));
    if (built_in) {
        job.settings["run.evaluate_steps"] = "0";
    }
    job.settings.merge(free_settings(dice));
    return job;
}

KeyValues free_settings(Dice& dice) {
    return {{"compute.threads", cat(dice.between(1, 3))},
            {"compute.recompute", dice.one_of<std::string>({"auto", "nothing", "cheap", "block"})},
            {"compute.memory", dice.one_of<std::string>({"auto", "1GiB", "2GiB"})},
            {"window.micro_batch_grains", cat(dice.between(0, 4))},
            {"run.checkpoint_steps", cat(dice.between(0, 4))},
            {"run.keep_checkpoints", cat(dice.between(0, 3))}};
}

}  // namespace accrue::soaking
