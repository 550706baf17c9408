#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "accrue/base/error.h"
#include "accrue/cli/advise_command.h"
#include "accrue/cli/bench_command.h"
#include "accrue/cli/commands.h"
#include "accrue/cli/demo_command.h"
#include "accrue/cli/device_option.h"
#include "accrue/cli/launched_run.h"
#include "accrue/cli/launcher.h"
#include "accrue/cli/plan_command.h"
#include "accrue/cli/serve_command.h"
#include "accrue/cli/signals.h"
#include "accrue/cli/standard_output.h"
#include "accrue/cli/team_options.h"
#include "accrue/cli/tokenize_command.h"
#include "accrue/cli/train_options.h"
#include "accrue/cli/verify_command.h"
#include "accrue/cli/work_command.h"
#include "accrue/cli/wrong_use.h"
#include "accrue/data/documents/chat_format.h"
#include "accrue/data/tokenizers/visible_text.h"
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
    ServeCommand serve;
    WorkCommand work;
    PlanCommand plan;
    VerifyCommand verify;
    DemoCommand demo;
    AdviseCommand advise;
};

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0  done\n"
    "  1  an error, which is named; what accrue verify compared is not the same; no plan fits\n"
    "  2  wrong use: an unknown command or option\n"
    "  3  accrue train or serve was stopped by Ctrl-C, SIGTERM or SIGHUP, and can be resumed\n";

CLI::App* add_train(CLI::App& app, TrainCommand& command) {
    auto* train = app.add_subcommand("train", "Train a model; without a file, a small one on built-in stories");
    add_train_options(*train, command);
    train
        ->add_option("--workers", command.workers,
                     "Let so many processes of this machine compute, which may be killed; the weights are the same")
        ->check(CLI::Range(int64_t{1}, kMostWorkers));
    train->footer(
        "Ctrl-C, SIGTERM or SIGHUP: the run is saved, the exit code is 3, and --resume goes on. A second Ctrl-C ends "
        "it "
        "at once.\n\nSettings, with their defaults:\n" +
        describe_settings());
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
        ->check(CLI::IsMember(words_of<ChatFormat>()));
}

void add_device(CLI::App& command, std::string& device) {
    command
        .add_option("--device", device,
                    "cpu, cuda or cuda:1; auto = the run's, of a model folder the first GPU, else the processor")
        ->capture_default_str()
        ->check(device_or_auto());
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
    add_device(*sample, command.device);
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
    add_device(*eval, command.device);
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
    exported->add_flag("--overwrite", command.overwrite, "Replace the output if it exists");
    return exported;
}

void say_error(const std::string& text) {
    // Parts of it may come from a damaged file. Where nobody can read it, the exit code has to do.
    (void)std::fputs(cat("accrue: ", visible_text(text), "\n").c_str(), stderr);
}

// Help that was asked for, or what is wrong with the words, with a guess where the parser has none.
int tell_parser(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
    const std::string hint = error.get_exit_code() == 0 ? "" : hint_for_words(app, words);
    if (!hint.empty()) {
        say_error(hint);
        return static_cast<int>(ExitCode::wrong_use);
    }
    const int code = app.exit(error);
    std::cout.flush();
    flush_output();
    return static_cast<int>(code == 0 ? ExitCode::done : ExitCode::wrong_use);
}

int run(int argc, char** argv) {
    CLI::App app("accrue trains language models with the batch you want on the machine you have.", "accrue");
    app.set_version_flag("--version", [] { return version_text(); });
    app.require_subcommand(1);
    app.footer(kExitCodes);
    Commands commands;
    ExitCode code = ExitCode::done;
    add_train(app, commands.train)->callback([&] {
        const auto launch = commands.train.workers == 0 ? launch_in(variable_of_process) : std::nullopt;
        code = launch ? run_launched(commands.train, *launch) : run_train(commands.train);
    });
    add_sample(app, commands.sample)->callback([&] { code = run_sample(commands.sample); });
    add_eval(app, commands.eval)->callback([&] { code = run_eval(commands.eval); });
    add_inspect(app, commands.inspect)->callback([&] { code = run_inspect(commands.inspect); });
    add_export(app, commands.export_model)->callback([&] { code = run_export(commands.export_model); });
    add_serve_command(app, commands.serve, code);
    add_work_command(app, commands.work, code);
    add_plan_command(app, commands.plan, code);
    const ProgramUnderTest program = real_program();
    add_verify_command(app, commands.verify, code, program);
    add_demo_command(app, commands.demo, code);
    add_advise_command(app, commands.advise, code);
    add_bench_command(app, commands.bench, code);
    add_tokenizer_commands(app, commands.tokenize, commands.tokenizer_train, code);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return tell_parser(app, error, {argv + std::min(argc, 1), argv + argc});
    }
    const auto ran = [&app](const char* name) { return app.got_subcommand(name); };
    if (!ran("train") && !ran("serve") && !ran("work")) {  // whose output only says how far it is
        flush_output();
    }
    return static_cast<int>(code);
}

int run_and_say_errors(int argc, char** argv) try { return run(argc, argv); } catch (const Error& error) {
    say_error(error.what());
    return static_cast<int>(ExitCode::error);
} catch (const std::bad_alloc&) {
    say_error("out of memory. Choose a smaller model, sequence or micro-batch.");
    return static_cast<int>(ExitCode::error);
} catch (const std::filesystem::filesystem_error& error) {
    say_error(cat(error.path1().empty() ? "a file" : error.path1().string(),
                  " cannot be read or written: ", error.code().message()));
    return static_cast<int>(ExitCode::error);
} catch (const std::exception& error) {
    const auto* failure = dynamic_cast<const std::system_error*>(&error);
    if (failure != nullptr && std::ferror(stdout) != 0) {  // thrown by fmt::print
        output_failed(failure->code().value());
    }
    say_error(cat("unexpected error: ", error.what()));
    return static_cast<int>(ExitCode::error);
}

}  // namespace
}  // namespace accrue

int main(int argc, char** argv) {
    accrue::turn_signals_into_errors();
    try {
        return accrue::run_and_say_errors(argc, argv);
    } catch (const accrue::OutputClosed&) {
        // As every program ends whose reader has seen enough.
        std::signal(SIGPIPE, SIG_DFL);
        (void)std::raise(SIGPIPE);
    } catch (const accrue::Error& error) {
        accrue::say_error(error.what());
    }
    return static_cast<int>(accrue::ExitCode::error);
}
