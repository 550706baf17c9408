#include "accrue/train/trained_model.h"

#include <algorithm>
#include <cstdlib>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/kernels/dry/dry_kernels.h"
#include "accrue/kernels/gpus.h"
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

std::shared_ptr<const ModelSpec> spec_of(const Source& source, const Tokenizer* tokenizer, int64_t longest,
                                         const ModelFamilies& families) {
    if (!source.model_folder.empty()) {
        return families.read(source.model_folder, longest);
    }
    return run_model(*source.settings, tokenizer, longest, families);
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
    Reading(const ModelSpec& spec, const ModelOptions& options, Kernels& kernels)
        : model(spec.make(options, kernels)),
          master(take_matrix<float>(kernels.arena(), 1, model->parameters().flat_elements)) {
        if (options.dtype != DType::fp32) {
            copy = take_any_matrix(kernels.arena(), options.dtype, 1, model->parameters().flat_elements);
        }
    }
    [[nodiscard]] Weights weights() const {
        return {.master = master.view,
                .compute = copy.view.empty() ? AnyConstView(master.view) : AnyConstView(copy.view)};
    }

    // What its arena must hold.
    static int64_t plan_bytes(const ModelSpec& spec, const ModelOptions& options, const DeviceName& device,
                              int threads);

    std::unique_ptr<Model> model;
    Leased<float> master;
    LeasedAny copy;
};

int64_t TrainedModel::Reading::plan_bytes(const ModelSpec& spec, const ModelOptions& options, const DeviceName& device,
                                          int threads) {
    Arena arena = Arena::dry();
    const auto kernels = make_dry_kernels(arena, {.name = device}, threads);
    Reading reading(spec, options, *kernels);
    const std::vector<int32_t> tokens(static_cast<size_t>(options.longest_sample), 0);
    TokenBatch batch;
    batch.tokens = tokens;
    batch.targets = tokens;
    batch.positions = tokens;
    batch.row_keys.assign(tokens.size(), 0);
    batch.segments.push_back({.first = 0, .length = batch.rows()});
    (void)reading.model->losses(batch, reading.weights());
    return arena.high_water_bytes();
}

// Where to read a model that takes so many bytes of a GPU, if nobody says.
DeviceName TrainedModel::usual_device_for(const std::optional<Settings>& settings, int64_t bytes_on_gpu,
                                          const std::function<void(const std::string&)>& note) {
    // What CUDA takes for kernels that are needed first here.
    constexpr int64_t kBesideBytes = int64_t{256} << 20;
    if (std::getenv(kTestDevice) != nullptr && usual_device().kind == DeviceKind::cuda) {
        return usual_device();
    }
    const DeviceName of_run =
        settings ? settings->compute.device.value_or(DeviceKind::cpu) : DeviceName(DeviceKind::cuda);
    if (of_run.kind != DeviceKind::cuda || std::getenv(kTestDevice) != nullptr) {
        return DeviceKind::cpu;
    }
    try {
        require_gpu(of_run.gpu);
        const int64_t free_bytes = memory_of_gpu(of_run.gpu).free_bytes;
        if (bytes_on_gpu + kBesideBytes <= free_bytes) {
            return of_run;
        }
        note(cat("the processor computes: of the memory of ", text_of(of_run), " ", format_bytes(free_bytes),
                 " are free, and ", format_bytes(bytes_on_gpu + kBesideBytes), " are needed"));
    } catch (const Error& error) {
        if (settings) {
            note(cat("the processor computes, not the GPU of the run: ", error.what()));
        }
    }
    return DeviceKind::cpu;
}

struct TrainedModel::Parts {
    std::optional<Settings> settings;
    std::shared_ptr<const ModelSpec> spec;
    int64_t longest = 0;
    Pool pool;
    std::unique_ptr<Arena> arena;
    std::unique_ptr<Kernels> kernels;
    std::unique_ptr<Reading> reading;
    std::unique_ptr<Tokenizer> tokenizer;

    explicit Parts(int threads) : pool(threads) {}
};

TrainedModel::TrainedModel(const fs::path& folder, int64_t longest, int64_t threads,
                           const std::optional<DeviceName>& asked_device,
                           const std::function<void(const std::string&)>& note, const ModelFamilies& families)
    : parts_(std::make_unique<Parts>(static_cast<int>(threads))) {
    const Source source = find_source(folder);
    parts_->tokenizer = tokenizer_of(source);
    parts_->spec = spec_of(source, parts_->tokenizer.get(), longest, families);
    const ModelSpec& spec = *parts_->spec;
    const LongWork work{.pool = &parts_->pool};
    const auto checkpoint =
        source.model_folder.empty() ? open_newest_checkpoint(source.checkpoints, note, work) : std::nullopt;
    parts_->settings = source.settings;
    const int64_t usual = source.settings ? source.settings->data.sequence_length : kUsualSequence;
    parts_->longest = longest > 0 ? longest : std::min(spec.positions(), usual);
    ModelOptions options{.dtype = source.settings ? source.settings->compute.dtype : DType::fp32,
                         .longest_sample = parts_->longest};
    const auto bytes_on = [&](const DeviceName& device) {
        return Reading::plan_bytes(spec, options, device, parts_->pool.threads());
    };
    const DeviceChoice device{
        .name = asked_device ? *asked_device : usual_device_for(source.settings, bytes_on(DeviceKind::cuda), note)};
    if (device.name.kind == DeviceKind::cuda) {
        require_gpu(device.name.gpu);
    } else if (options.dtype == DType::fp16) {
        options.dtype = DType::fp32;  // which has all of its numbers, and processors compute
    }
    parts_->arena = std::make_unique<Arena>(make_backing(device, bytes_on(device.name)));
    parts_->kernels = make_kernels(device, parts_->pool, *parts_->arena);
    parts_->reading = std::make_unique<Reading>(spec, options, *parts_->kernels);
    const View<float> master = parts_->reading->master.view;
    const PutWeights put = put_into(*parts_->kernels, master);
    const ParameterList& parameters = spec.parameters();
    if (checkpoint) {
        load_weights_of_checkpoint(*checkpoint, parameters, put, work);
    } else {
        load_model_weights(source.model_folder, parameters, put, work);
    }
    if (options.dtype != DType::fp32) {
        parts_->kernels->run(op::Cast{.input = master, .dropout = {}, .output = parts_->reading->copy.view});
    }
}

std::unique_ptr<Tokenizer> open_tokenizer_of(const fs::path& folder) {
    return tokenizer_of(find_source(folder));
}

TrainedModel::~TrainedModel() = default;

const std::shared_ptr<const ModelSpec>& TrainedModel::spec() const {
    return parts_->spec;
}

Model& TrainedModel::model() {
    return *parts_->reading->model;
}

Generator& TrainedModel::generator() {
    Generator* generator = model().generator();
    if (generator == nullptr) {
        throw Error(cat("no text can come from a model of the family \"", spec()->family(),
                        "\". Measure its loss with accrue eval instead."));
    }
    return *generator;
}

Weights TrainedModel::weights() const {
    return parts_->reading->weights();
}

std::vector<float> TrainedModel::weights_on_host() const {
    return downloaded(*parts_->kernels, parts_->reading->master.view);
}

std::string TrainedModel::device() const {
    return parts_->kernels->description();
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
