#include <cmath>

#include <fmt/format.h>

#include "accrue/base/error.h"
#include "accrue/cli/commands.h"
#include "accrue/train/evaluate.h"
#include "accrue/train/inputs.h"
#include "accrue/train/reader.h"

namespace accrue {
namespace {

// The files given, or the validation data of the run.
std::unique_ptr<Dataset> data_to_evaluate(const EvalCommand& command) {
    const std::filesystem::path settings_file = std::filesystem::path(command.folder) / "run.toml";
    const bool is_run = std::filesystem::exists(settings_file);
    const Settings settings = is_run ? read_settings(settings_file, {}) : Settings{};
    if (!command.data.empty()) {
        return open_dataset({command.data.begin(), command.data.end()}, settings.data.sequence_length);
    }
    auto data = is_run ? open_validation_data(settings) : nullptr;
    if (!data) {
        throw Error(
            cat(command.folder, " names no validation data. Give some: accrue eval ", command.folder, " --data FILE"));
    }
    return data;
}

}  // namespace

ExitCode run_eval(const EvalCommand& command) {
    const auto data = data_to_evaluate(command);
    TrainedModel model(command.folder, data->longest(), command.threads);
    check_tokens(*data, model.config());
    const Evaluation result = evaluate(model.decoder(), model.weights(), *data, 1);
    fmt::print("samples:    {}\ntokens:     {}\nloss:       {:.6f} per token\nperplexity: {:.4f}\n", data->size(),
               result.tokens, result.loss, std::exp(result.loss));
    return ExitCode::done;
}

}  // namespace accrue
