#include "accrue/train/trained_model.h"

#include <algorithm>

#include "accrue/base/error.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/kernels/dry/dry_kernels.h"
#include "accrue/model/model_folder.h"
#include "accrue/train/inputs.h"
#include "accrue/train/newest_checkpoint.h"
#include "accrue/train/state.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUsualSequence = 1024;

// Where a folder keeps its weights: a model folder, or the checkpoints of a run.
struct Source {
    fs::path model_folder;
    fs::path checkpoints;
    std::optional<Settings> settings;
};

Source find_source(const fs::path& folder) {
    if (!fs::is_directory(folder)) {
        throw Error(
            cat(folder.string(), " is not a folder. Give a run folder (runs/1) or a Hugging Face model folder."));
    }
    Source source;
    if (fs::exists(folder / "config.json")) {
        source.model_folder = folder;
        return source;
    }
    if (!fs::exists(folder / "run.toml")) {
        throw Error(
            cat(folder.string(), " holds neither run.toml nor config.json: it is no run folder and no model folder."));
    }
    source.settings = read_settings(folder / "run.toml", {});
    if (fs::exists(folder / "model" / "config.json")) {
        source.model_folder = folder / "model";
        return source;
    }
    source.checkpoints = folder / "checkpoints";
    if (survey_checkpoints(source.checkpoints).empty()) {
        throw Error(cat(folder.string(),
                        " has no model and no checkpoint yet. Let it train, or continue it: accrue train --resume ",
                        folder.string()));
    }
    return source;
}

ModelConfig config_of(const Source& source, const Tokenizer* tokenizer, int64_t longest) {
    if (!source.model_folder.empty()) {
        return read_model_config(source.model_folder, longest);
    }
    return run_model_config(*source.settings, tokenizer, longest);
}

std::unique_ptr<Tokenizer> tokenizer_of(const Source& source) {
    if (!source.model_folder.empty() && tokenizer_file_in(source.model_folder)) {
        return open_tokenizer(source.model_folder);
    }
    return source.settings ? open_run_tokenizer(*source.settings) : nullptr;
}

}  // namespace

// The same steps on a dry and on a real device, so that the dry one counts what the real one takes.
struct TrainedModel::Reading {
    Reading(const ModelConfig& config, const Decoder::Options& options, Kernels& kernels)
        : decoder(config, options, kernels),
          master(take_matrix<float>(kernels.arena(), 1, decoder.parameters().flat_elements)) {
        if (options.dtype == DType::bf16) {
            copy = take_any_matrix(kernels.arena(), DType::bf16, 1, decoder.parameters().flat_elements);
        }
    }
    [[nodiscard]] Weights weights() const {
        return {.master = master.view,
                .compute = copy.view.empty() ? AnyConstView(master.view) : AnyConstView(copy.view)};
    }

    // What its arena must hold.
    static int64_t plan_bytes(const ModelConfig& config, const Decoder::Options& options, int threads);

    Decoder decoder;
    Leased<float> master;
    LeasedAny copy;
};

int64_t TrainedModel::Reading::plan_bytes(const ModelConfig& config, const Decoder::Options& options, int threads) {
    Arena arena = Arena::dry();
    const auto kernels = make_dry_kernels(arena, threads);
    Reading reading(config, options, *kernels);
    const std::vector<int32_t> tokens(static_cast<size_t>(options.longest_sample), 0);
    (void)reading.decoder.next_scores(tokens, reading.weights());
    TokenBatch batch;
    batch.tokens = tokens;
    batch.targets = tokens;
    batch.positions = tokens;
    batch.row_keys.assign(tokens.size(), 0);
    batch.segments.push_back({.first = 0, .length = batch.rows()});
    (void)reading.decoder.losses(batch, reading.weights());
    return arena.high_water_bytes();
}

struct TrainedModel::Parts {
    std::optional<Settings> settings;
    int64_t longest = 0;
    Pool pool;
    std::unique_ptr<Arena> arena;
    std::unique_ptr<Kernels> kernels;
    std::unique_ptr<Reading> reading;
    std::unique_ptr<Tokenizer> tokenizer;

    explicit Parts(int threads) : pool(threads) {}
};

TrainedModel::TrainedModel(const fs::path& folder, int64_t longest, int64_t threads,
                           const std::function<void(const std::string&)>& note)
    : parts_(std::make_unique<Parts>(static_cast<int>(threads))) {
    const Source source = find_source(folder);
    parts_->tokenizer = tokenizer_of(source);
    const ModelConfig config = config_of(source, parts_->tokenizer.get(), longest);
    const LongWork work{.pool = &parts_->pool};
    const auto checkpoint =
        source.model_folder.empty() ? open_newest_checkpoint(source.checkpoints, note, work) : std::nullopt;
    parts_->settings = source.settings;
    const int64_t usual = source.settings ? source.settings->data.sequence_length : kUsualSequence;
    parts_->longest = longest > 0 ? longest : std::min(config.positions, usual);
    const bool reads_bf16 = source.settings && source.settings->compute.dtype == DType::bf16;
    const Decoder::Options options{.dtype = reads_bf16 ? DType::bf16 : DType::fp32, .longest_sample = parts_->longest};
    parts_->arena = std::make_unique<Arena>(Reading::plan_bytes(config, options, parts_->pool.threads()));
    parts_->kernels = make_cpu_kernels(parts_->pool, *parts_->arena);
    parts_->reading = std::make_unique<Reading>(config, options, *parts_->kernels);
    const View<float> master = parts_->reading->master.view;
    const std::span<float> flat(master.data, static_cast<size_t>(master.columns));
    const ParameterList& parameters = parts_->reading->decoder.parameters();
    if (checkpoint) {
        load_weights_of_checkpoint(*checkpoint, parameters, flat, work);
    } else {
        load_model_weights(source.model_folder, parameters, flat, work);
    }
    if (reads_bf16) {
        parts_->kernels->cast(master, {}, parts_->reading->copy.view);
    }
}

std::unique_ptr<Tokenizer> open_tokenizer_of(const fs::path& folder) {
    return tokenizer_of(find_source(folder));
}

TrainedModel::~TrainedModel() = default;

const ModelConfig& TrainedModel::config() const {
    return parts_->reading->decoder.config();
}

Decoder& TrainedModel::decoder() {
    return parts_->reading->decoder;
}

Weights TrainedModel::weights() const {
    return parts_->reading->weights();
}

int64_t TrainedModel::longest() const {
    return parts_->longest;
}

const Tokenizer* TrainedModel::tokenizer() const {
    return parts_->tokenizer.get();
}

const std::optional<Settings>& TrainedModel::settings() const {
    return parts_->settings;
}

}  // namespace accrue
