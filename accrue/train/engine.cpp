#include "accrue/train/engine.h"

#include <algorithm>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/base/random.h"
#include "accrue/optim/adamw.h"
#include "accrue/optim/sgd.h"

namespace accrue {
namespace {

// A device says how many rows keep it busy; more only take memory. Of many threads each wants its share, above all in
// attention, whose items are heads.
constexpr int64_t kThreadRows = 256;

std::vector<SumTensor> sum_tensors(const ParameterList& list) {
    std::vector<SumTensor> tensors;
    for (const int64_t index : list.trained) {
        const Parameter& parameter = list[index];
        tensors.push_back(
            {.offset = parameter.gradient->offset, .rows = parameter.rows(), .columns = parameter.columns()});
    }
    return tensors;
}

std::vector<OptimizedTensor> optimized_tensors(const ParameterList& list) {
    std::vector<OptimizedTensor> tensors;
    for (const int64_t index : list.trained) {
        const Parameter& parameter = list[index];
        tensors.push_back({.offset = parameter.offset,
                           .moment_offset = parameter.gradient->offset,
                           .elements = parameter.elements(),
                           .decays = parameter.is_matrix()});
    }
    return tensors;
}

// Each use of the seed has a number of its own, so that no two see the same random bits.
uint64_t seed_for(const Settings& settings, uint64_t use) {
    return mix(static_cast<uint64_t>(settings.run.seed), use);
}
constexpr uint64_t kDropout = 0x64726f70;
constexpr uint64_t kSumRounding = 0x73756d73;
constexpr uint64_t kMomentRounding = 0x6d6f6d65;

// Where sums and moments lie; all else is the device's.
Arena& memory_of_sums(const Settings& settings, Kernels& kernels) {
    return settings.compute.host_state == HostState::sums ? kernels.arena().on_host() : kernels.arena();
}
Arena& memory_of_moments(const Settings& settings, Kernels& kernels) {
    const bool has_any = settings.optimizer.name == OptimizerKind::adamw || settings.optimizer.momentum > 0;
    return has_any && settings.compute.host_state != HostState::none ? kernels.arena().on_host() : kernels.arena();
}

// The first ranges, until somebody says which.
MomentShare share_of(const StateSharing& sharing, const std::vector<OptimizedTensor>& tensors, int64_t elements) {
    if (sharing.is_everywhere()) {
        return {};
    }
    std::vector<FlatTensor> flat;
    for (const OptimizedTensor& tensor : tensors) {
        flat.push_back({.offset = tensor.moment_offset, .elements = tensor.elements});
    }
    return {.ranges = cut_into_ranges(flat, elements, sharing.ranges), .places = sharing.copies};
}

std::unique_ptr<Optimizer> make_optimizer(const Settings& all, const ParameterList& list, Kernels& kernels,
                                          const StateSharing& sharing) {
    const Settings::Optimizer& settings = all.optimizer;
    MomentShare share = share_of(sharing, optimized_tensors(list), list.gradient_elements);
    const uint64_t rounding_seed = seed_for(all, kMomentRounding);
    if (settings.name == OptimizerKind::sgd) {
        return std::make_unique<Sgd>(
            Sgd::Options{.momentum = settings.momentum,
                         .kind = settings.nesterov ? SgdSettings::Kind::nesterov : SgdSettings::Kind::plain,
                         .weight_decay = settings.weight_decay,
                         .moments = settings.moments,
                         .rounding_seed = rounding_seed,
                         .share = std::move(share)},
            optimized_tensors(list), list.gradient_elements, kernels, memory_of_moments(all, kernels));
    }
    return std::make_unique<AdamW>(AdamW::Options{.beta1 = settings.beta1,
                                                  .epsilon = settings.epsilon,
                                                  .weight_decay = settings.weight_decay,
                                                  .moments = settings.moments,
                                                  .rounding_seed = rounding_seed,
                                                  .share = std::move(share)},
                                   optimized_tensors(list), list.gradient_elements, kernels,
                                   memory_of_moments(all, kernels));
}

// Without a copy forward reads all in fp32.
MasterPlaces master_places(const Settings& settings, const ParameterList& list, const StateSharing& sharing) {
    if (sharing.is_everywhere() || settings.compute.dtype == DType::fp32) {
        return {};
    }
    MasterPlaces places = places_beside_copy(list);
    const bool shares_any = std::ranges::find(places.by_gradient, MasterPlaces::kElsewhere) != places.by_gradient.end();
    return shares_any ? std::move(places) : MasterPlaces();
}

Schedule schedule_of(const Settings::Schedule& settings) {
    return {.kind = settings.kind,
            .steps = settings.steps,
            .warmup_steps = settings.warmup_steps,
            .final_fraction = settings.final_fraction,
            .decay_fraction = settings.decay_fraction};
}

// A window given in tokens counts as that many samples of full length.
double rate_for_tokens(const Engine::Rules::TunedRate& tuned, int64_t tokens) {
    const double samples = static_cast<double>(tokens) / static_cast<double>(tuned.sample_tokens);
    return scaled_rate(tuned.rate, tuned.rule, samples, tuned.samples);
}

Engine::Rules rules_of(const Settings& settings, int64_t longest_sample) {
    const auto& window = settings.window;
    const auto& optimizer = settings.optimizer;
    const Engine::Rules::TunedRate tuned{.rate = optimizer.rate,
                                         .rule = optimizer.rate_rule,
                                         .samples = optimizer.rate_samples,
                                         .sample_tokens = longest_sample};
    return {.window = window_size_of(window),
            .micro_batch_grains = window.micro_batch_grains > 0
                                      ? window.micro_batch_grains
                                      : default_micro_batch_grains(settings, longest_sample, 1),
            .schedule = schedule_of(settings.schedule),
            .rate = window.tokens > 0
                        ? rate_for_tokens(tuned, window.tokens)
                        : scaled_rate(tuned.rate, tuned.rule, static_cast<double>(window.samples), tuned.samples),
            .tuned = tuned,
            .beta2 = optimizer.beta2,
            .beta2_half_life_tokens = static_cast<double>(optimizer.beta2_half_life_tokens),
            .clip_norm = optimizer.clip_norm,
            .rounding_seed = seed_for(settings, kSumRounding),
            .loss_scale_steps = settings.compute.dtype == DType::fp16 ? settings.compute.loss_scale_steps : 0};
}

}  // namespace

bool Engine::Rules::need_tokens_of(const Window& taken) const {
    return beta2_half_life_tokens > 0 || (taken.is_short && window.tokens > 0);
}

double Engine::Rules::beta2_of(int64_t counted_tokens) const {
    return beta2_half_life_tokens > 0 ? beta2_for_half_life(beta2_half_life_tokens, static_cast<double>(counted_tokens))
                                      : beta2;
}

double Engine::Rules::rate_of(const Window& taken, int64_t counted_tokens) const {
    if (!taken.is_short) {
        return rate;
    }
    return window.tokens > 0 ? rate_for_tokens(tuned, counted_tokens)
                             : scaled_rate(tuned.rate, tuned.rule, static_cast<double>(taken.samples), tuned.samples);
}

DeviceChoice device_of(const Settings::Compute& compute) {
    return {.name = compute.device.value_or(usual_device()), .instruction_set = compute.instruction_set};
}

WindowSize window_size_of(const Settings::Window& settings) {
    return {.samples = settings.samples,
            .tokens = settings.tokens,
            .grain_samples = settings.grain_samples,
            .last = settings.last};
}

int64_t default_micro_batch_grains(const Settings& settings, int64_t longest_sample, int threads) {
    const int64_t grain_rows = std::max<int64_t>(1, settings.window.grain_samples * longest_sample);
    const DeviceChoice device = device_of(settings.compute);
    const int64_t rows = make_workspace(device, threads)->traits().micro_batch_rows;
    const int64_t of_threads = device.name.kind == DeviceKind::cuda ? 0 : threads * kThreadRows;
    return std::max<int64_t>(1, std::max(rows, of_threads) / grain_rows);
}

Choices choices_of(const Settings& settings, int64_t blocks) {
    Choices choices;
    if (settings.compute.recompute) {
        choices.blocks.assign(static_cast<size_t>(blocks), *settings.compute.recompute);
    }
    return choices;
}

Engine::Engine(const Settings& settings, const std::shared_ptr<const ModelSpec>& model_spec, int64_t longest_sample,
               Kernels& kernels_to_use)
    : Engine(settings, model_spec, longest_sample, kernels_to_use, choices_of(settings, model_spec->blocks())) {}

Engine::Engine(const Settings& settings, std::shared_ptr<const ModelSpec> model_spec, int64_t longest_sample,
               Kernels& kernels_to_use, const Choices& choices)
    : Engine(settings, std::move(model_spec), longest_sample, kernels_to_use, choices, StateSharing{}) {}

Engine::Engine(const Settings& settings, std::shared_ptr<const ModelSpec> model_spec, int64_t longest_sample,
               Kernels& kernels_to_use, const Choices& choices, const StateSharing& sharing)
    : kernels(kernels_to_use),
      spec(std::move(model_spec)),
      model(spec->make({.dtype = settings.compute.dtype,
                        .longest_sample = longest_sample,
                        .dropout_seed = seed_for(settings, kDropout)},
                       kernels)),
      sum(sum_tensors(model->parameters()), model->parameters().gradient_elements, settings.compute.sums, kernels,
          memory_of_sums(settings, kernels)),
      optimizer(make_optimizer(settings, model->parameters(), kernels, sharing)),
      rules(rules_of(settings, longest_sample)),
      dtype_(settings.compute.dtype),
      places_(master_places(settings, model->parameters(), sharing)),
      master_(take_matrix<float>(kernels.arena(), 1,
                                 shares_master() ? places_.elements : model->parameters().flat_elements)) {
    state.loss_scale.value = rules.loss_scale_steps > 0 ? settings.compute.loss_scale : LossScale::kSmallest;
    weights.master = master_.view;
    fill_zero(kernels, master_.block);
    if (shares_master()) {
        kept_ = take_matrix<float>(kernels.arena(), 1, optimizer->kept().elements());
        fill_zero(kernels, kept_.block);
        weights.kept = kept_.view;
        weights.places = places_.by_gradient;
    }
    choose(choices);
}

void Engine::choose(const Choices& choices) {
    model->choose(choices);
    sum.let_wait(choices.waiting_grains);
    const bool wants_copy =
        shares_master() || (dtype_ != DType::fp32 && choices.weight_copy == Choices::WeightCopy::kept);
    if (wants_copy == !weights.copy.empty()) {
        return;
    }
    copy_ = wants_copy ? take_any_matrix(kernels.arena(), dtype_, 1, model->parameters().flat_elements) : LeasedAny{};
    weights.copy = copy_.view;
    refresh_copy();
}

Weights Engine::weights_to_read() const {
    return {.master = weights.master,
            .compute = weights.copy.empty() ? AnyConstView(weights.master) : weights.copy,
            .master_places = places_.by_parameter};
}

std::vector<Engine::MasterPiece> Engine::masters() const {
    if (!shares_master()) {
        return {{.first = 0, .values = weights.master}};
    }
    const ParameterList& list = model->parameters();
    std::vector<MasterPiece> pieces;
    for (int64_t index = 0; index < list.count(); ++index) {
        if (const View<float> all = master_of(index); all.data != nullptr) {
            pieces.push_back({.first = list[index].offset, .values = all});
        }
    }
    for (const KeptPiece& piece : optimizer->kept().pieces()) {
        if (weights.is_in_kept(piece.of.tensor)) {
            pieces.push_back({.first = list.of_gradient(piece.of.tensor).offset + piece.of.first,
                              .values = weights.kept.slice_columns(piece.element, piece.of.count),
                              .range = piece.range});
        }
    }
    return pieces;
}

View<float> Engine::master_of(int64_t parameter) const {
    const Parameter& of = model->parameters()[parameter];
    const int64_t place = shares_master() ? places_.by_parameter[static_cast<size_t>(parameter)] : of.offset;
    return place == MasterPlaces::kElsewhere ? View<float>() : weights.master.slice_columns(place, of.elements());
}

void Engine::refresh_copy() {
    if (weights.copy.empty()) {
        return;
    }
    for (const MasterPiece& piece : masters()) {
        kernels.run(op::Cast{.input = piece.values,
                             .dropout = {},
                             .output = weights.copy.slice_columns(piece.first, piece.values.columns)});
    }
}

WindowRecord Engine::record_of(const Window& window, std::optional<int64_t> counted_tokens) const {
    const int64_t tokens = counted_tokens.value_or(0);
    return {.window = window,
            .step = state.step + 1,
            .units = state.units,
            .replay = 0,
            .rate = rules.rate_of(window, tokens) * rules.schedule.factor(state.step),
            .beta2 = rules.beta2_of(tokens),
            .rounding_seed = rounding_seed(),
            .loss_scale = state.loss_scale.value,
            .counted_tokens = counted_tokens};
}

void Engine::open(WindowRecord record) {
    sum.open(record.window.grains(), record.units, record.rounding_seed, record.loss_scale);
    state.open = std::move(record);
}

int64_t Engine::finished_grains() const {
    return state.open ? sum.ledger().finished() : 0;
}

uint64_t Engine::rounding_seed() const {
    return mix(rules.rounding_seed, static_cast<uint64_t>(state.step));
}

std::string Engine::weights_hash() const {
    Hasher hasher;
    const ParameterList& list = model->parameters();
    for (int64_t index = 0; index < list.count(); ++index) {
        const View<float> master = master_of(index);
        const AnyView copy = master.data == nullptr
                                 ? weights.copy.slice_columns(list[index].offset, list[index].elements())
                                 : AnyView(master);
        const std::span<const std::byte> bytes(static_cast<const std::byte*>(copy.data),
                                               static_cast<size_t>(copy.elements() * bytes_of(copy.dtype)));
        source_of(kernels, bytes).for_pieces(int64_t{1} << 20, [&hasher](std::span<const std::byte> piece) {
            hasher.add(piece);
        });
    }
    return hasher.digest();
}

ByteSource Engine::weights_source() const {
    if (shares_master()) {
        throw Error("nobody has all fp32 weights of a run whose workers share them. This is a fault of the program.");
    }
    return source_of(kernels, weights.master);
}

PutWeights Engine::put_weights() const {
    if (!shares_master()) {
        return put_into(kernels, weights.master);
    }
    return [&kernels = kernels, pieces = masters()](int64_t first, std::span<const float> values) {
        for (const MasterPiece& piece : pieces) {
            const int64_t from = std::max(first, piece.first);
            const int64_t end = std::min(first + std::ssize(values), piece.first + piece.values.columns);
            if (from < end) {
                upload(kernels, values.subspan(static_cast<size_t>(from - first), static_cast<size_t>(end - from)),
                       piece.values.data + (from - piece.first));
            }
        }
    };
}

PutWeights put_into(Kernels& kernels, View<float> flat) {
    return
        [&kernels, flat](int64_t first, std::span<const float> values) { upload(kernels, values, flat.data + first); };
}

}  // namespace accrue
