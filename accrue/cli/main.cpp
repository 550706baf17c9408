#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "accrue/base/error.h"
#include "accrue/cli/advise_command.h"
#include "accrue/cli/bench_command.h"
#include "accrue/cli/commands.h"
#include "accrue/cli/demo_command.h"
#include "accrue/cli/plan_command.h"
#include "accrue/cli/tokenize_command.h"
#include "accrue/cli/verify_command.h"
#include "accrue/data/visible_text.h"
#include "accrue/train/settings.h"

namespace accrue {
namespace {

struct Commands {
    TrainCommand train;
    SampleCommand sample;
    EvalCommand eval;
    TokenizeCommand tokenize;
    TokenizerTrainCommand tokenizer_train;
    InspectCommand inspect;
    ExportCommand export_model;
    BenchCommand bench;
    PlanCommand plan;
    VerifyCommand verify;
    DemoCommand demo;
    AdviseCommand advise;
};

CLI::App* add_train(CLI::App& app, TrainCommand& command) {
    auto* train = app.add_subcommand("train", "Train a model; without a file, a small one on built-in stories");
    train->add_option("settings", command.settings_file, "A TOML file with settings")->type_name("run.toml");
    train->add_option("--set", command.overrides, "Override one setting: --set window.samples=64 (repeatable)")
        ->type_name("SECTION.KEY=VALUE")
        ->allow_extra_args(false);
    train->add_option("--memory", command.memory, "The most the run may hold: 16GiB (the same as compute.memory)")
        ->type_name("SIZE");
    train->add_option("--resume", command.resume, "Continue the run in this folder, bit for bit")->type_name("FOLDER");
    train->footer("Settings, with their defaults:\n" + describe_settings());
    return train;
}

// CLI11's own ranges let nan pass, because no comparison with it holds.
CLI::Validator number_from(double least, double most, const std::string& allowed) {
    const auto fault = [=](const std::string& text) {
        double value = 0;
        const bool is_number = CLI::detail::lexical_cast(text, value);
        return is_number && std::isfinite(value) && value >= least && value <= most
                   ? std::string()
                   : fmt::format("{} is not a number {}", text, allowed);
    };
    return CLI::Validator(fault, allowed);
}

void add_chat_format(CLI::App& command, std::string& format) {
    command.add_option("--chat-format", format, "Without, that of the run or of the model's own template")
        ->check(CLI::IsMember({"chatml", "llama3", "plain"}));
}

CLI::App* add_sample(CLI::App& app, SampleCommand& command) {
    auto* sample = app.add_subcommand("sample", "Let a trained model go on from a prompt");
    sample->add_option("folder", command.folder, "A run folder or a Hugging Face model folder")->required();
    sample->add_option("prompt", command.prompt, "Text to go on from (token ids for a model without text)")->required();
    sample->add_option("--temperature", command.sampling.temperature, "0 = always the likeliest token")
        ->capture_default_str()
        ->check(number_from(0, std::numeric_limits<double>::max(), "from 0 up"));
    sample->add_option("--top-k", command.sampling.top_k, "Only the k likeliest tokens; 0 = all")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    sample
        ->add_option("--top-p", command.sampling.top_p,
                     "Only the likeliest tokens that together reach this probability")
        ->capture_default_str()
        ->check(number_from(0, 1, "from 0 to 1"));
    sample->add_option("--seed", command.sampling.seed, "The same seed gives the same text")->capture_default_str();
    sample->add_option("--tokens", command.sampling.tokens, "At most so many")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    sample->add_option("--threads", command.threads, "0 = all")->capture_default_str()->check(CLI::NonNegativeNumber);
    sample->add_flag("--chat", command.chat, "The prompt is a user's message; the model answers");
    add_chat_format(*sample, command.chat_format);
    return sample;
}

CLI::App* add_eval(CLI::App& app, EvalCommand& command) {
    auto* eval = app.add_subcommand("eval", "Measure the loss of a trained model");
    eval->add_option("folder", command.folder, "A run folder or a Hugging Face model folder")->required();
    eval->add_option("--data", command.data, "Files to measure on; without, the run's validation data")
        ->type_name("FILE");
    add_chat_format(*eval, command.chat_format);
    eval->add_option("--threads", command.threads, "0 = all")->capture_default_str()->check(CLI::NonNegativeNumber);
    return eval;
}

CLI::App* add_inspect(CLI::App& app, InspectCommand& command) {
    auto* inspect = app.add_subcommand("inspect", "Say what is in a folder or file");
    inspect
        ->add_option("path", command.path,
                     "A run, checkpoint, model or tokenizer folder, or a file: safetensors, GGUF, tokenizer, data")
        ->required();
    return inspect;
}

CLI::App* add_export(CLI::App& app, ExportCommand& command) {
    auto* exported = app.add_subcommand("export", "Write a model for other programs");
    exported->add_option("source", command.source, "A run folder, a Hugging Face model folder or a GGUF file")
        ->required();
    exported->add_option("--to", command.to, "hf = a Hugging Face folder, gguf = a file for llama.cpp")
        ->required()
        ->check(CLI::IsMember({"hf", "gguf"}));
    exported->add_option("--dtype", command.dtype, "Number format of the weights")
        ->capture_default_str()
        ->check(CLI::IsMember({"bf16", "fp16", "fp32"}));
    exported->add_option("--output", command.output, "Where to; without, beside the model, named after the format")
        ->type_name("PATH");
    return exported;
}

int run(int argc, char** argv) {
    CLI::App app("accrue trains language models with the batch you want on the machine you have.", "accrue");
    app.set_version_flag("--version", [] { return version_text(); });
    app.require_subcommand(1);
    Commands commands;
    ExitCode code = ExitCode::done;
    add_train(app, commands.train)->callback([&] { code = run_train(commands.train); });
    add_sample(app, commands.sample)->callback([&] { code = run_sample(commands.sample); });
    add_eval(app, commands.eval)->callback([&] { code = run_eval(commands.eval); });
    add_inspect(app, commands.inspect)->callback([&] { code = run_inspect(commands.inspect); });
    add_export(app, commands.export_model)->callback([&] { code = run_export(commands.export_model); });
    add_plan_command(app, commands.plan, code);
    const Parts parts = real_parts();
    add_verify_command(app, commands.verify, code, parts);
    add_demo_command(app, commands.demo, code);
    add_advise_command(app, commands.advise, code);
    add_bench_command(app, commands.bench, code);
    add_tokenizer_commands(app, commands.tokenize, commands.tokenizer_train, code);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? static_cast<int>(ExitCode::done) : static_cast<int>(ExitCode::wrong_use);
    }
    return static_cast<int>(code);
}

}  // namespace
}  // namespace accrue

int main(int argc, char** argv) {
    try {
        return accrue::run(argc, argv);
    } catch (const accrue::Error& error) {
        // Parts of it may come from a damaged file.
        fmt::print(stderr, "accrue: {}\n", accrue::visible_text(error.what()));
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "accrue: out of memory. Choose a smaller model, sequence or micro-batch.\n");
    } catch (const std::exception& error) {
        fmt::print(stderr, "accrue: unexpected error: {}\n", error.what());
    }
    return static_cast<int>(accrue::ExitCode::error);
}
