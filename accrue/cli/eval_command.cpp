#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "accrue/base/error.h"
#include "accrue/cli/commands.h"
#include "accrue/cli/device_option.h"
#include "accrue/cli/tokenizing_report.h"
#include "accrue/train/evaluate.h"
#include "accrue/train/inputs.h"
#include "accrue/train/trained_model.h"

namespace accrue {
namespace {

// The files given, or the validation data of the run.
std::unique_ptr<Dataset> data_to_evaluate(const EvalCommand& command, const Tokenizer* tokenizer,
                                          const CacheProgressCallback& progress) {
    const std::filesystem::path settings_file = std::filesystem::path(command.folder) / "run.toml";
    const bool is_run = std::filesystem::exists(settings_file);
    Settings settings = is_run ? read_settings(settings_file, {}) : Settings{};
    if (!is_run) {
        settings.model.from = command.folder;  // for its chat template
    }
    if (!command.chat_format.empty()) {
        settings.data.chat_format = chat_format_of(command.chat_format);
    }
    if (!command.data.empty()) {
        Settings whole = settings;
        whole.data.validation_fraction = 0;
        return open_run_files(whole, command.data, tokenizer, progress).train;
    }
    auto data = is_run ? open_validation_data(settings, tokenizer, progress) : nullptr;
    if (!data) {
        throw Error(
            cat(command.folder, " names no validation data. Give some: accrue eval ", command.folder,
                " --data FILE. To have it in every run, set data.validation to files, or data.validation_fraction to ",
                "the share of documents to keep from training, such as 0.05."));
    }
    return data;
}

}  // namespace

ExitCode run_eval(const EvalCommand& command) {
    const auto tokenizer = open_tokenizer_of(command.folder);
    // Not among the results, which somebody may want in a file.
    TokenizingReport tokenizing(stderr);
    const StopFlag never{false};
    const auto data = data_to_evaluate(command, tokenizer.get(), tokenizing.callback(never));
    for (const std::string& note : notes_on(*data, "data")) {
        fmt::print(stderr, "{}\n", note);
    }
    TrainedModel model(command.folder, data->longest(), command.threads, asked_device(command.device), warn);
    check_tokens(*data, *model.spec());
    const Evaluation result = evaluate(model.model(), model.weights(), *data, 1);
    fmt::print("samples:       {}\ntokens:        {}\nloss:          {:.6f} per token\nperplexity:    {:.4f}\n",
               data->size(), result.tokens, result.loss, std::exp(result.loss));
    const int64_t bytes = tokenizer ? counted_bytes(*data, *tokenizer) : 0;
    if (bytes > 0) {
        const double bits = result.loss * static_cast<double>(result.tokens) / std::numbers::ln2;
        fmt::print("bits per byte: {:.4f}\n", bits / static_cast<double>(bytes));
    }
    return ExitCode::done;
}

}  // namespace accrue
