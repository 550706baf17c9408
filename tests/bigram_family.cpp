#include "tests/bigram_family.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "accrue/model/config_fields.h"
#include "accrue/model/device_batch.h"

namespace accrue::testing {
namespace {

constexpr float kDeviation = 0.02F;

// The place of each table in the list of parameters.
enum Table : int64_t { after_word, at_place };

ParameterList tables_of(int64_t vocabulary, int64_t places) {
    ParameterList list;
    for (const auto& [name, rows] :
         {std::pair("after_word.weight", vocabulary), std::pair("at_place.weight", places)}) {
        (void)list.add({.name = name, .shape = {rows, vocabulary}, .initial_deviation = kDeviation});
        list.flat_elements = (list.flat_elements + 15) / 16 * 16;  // whole cache lines
    }
    list.place_gradients();
    return list;
}

class Bigram final : public Model {
public:
    Bigram(ParameterList parameters, Kernels& kernels) : parameters_(std::move(parameters)), kernels_(kernels) {}

    [[nodiscard]] const ParameterList& parameters() const override { return parameters_; }
    void choose(const Choices& choices) override {
        check_choices(choices, 0);
        choices_ = choices;
    }
    [[nodiscard]] const Choices& choices() const override { return choices_; }

    void forward_backward(const TokenBatch& batch, const Weights& weights, GradientSink& sink) override {
        sink.begin(counted_grains(batch));
        const DeviceBatch device(kernels_, batch, AttentionMask::causal, {.words = true, .positions = true});
        const Leased<float> d_scores =
            take_matrix<float>(kernels_.arena(), batch.rows(), parameters_[after_word].columns());
        const auto scale = static_cast<float>(sink.loss_scale());
        const Leased<float> losses = run(device, weights, d_scores.view, d_scores.view, scale);
        std::vector<op::LookupGrain> grains;
        for (const int64_t which : {after_word, at_place}) {
            for (size_t grain = 0; grain < device.grain_numbers().size(); ++grain) {
                grains.push_back({.rows = device.grain_rows()[grain],
                                  .index = which == after_word ? device.words_of(grain) : device.positions_of(grain),
                                  .held = {},
                                  .d_table = sink.sum_of(device.grain_numbers()[grain], which)});
            }
        }
        kernels_.run(op::AddLookupGrad{.d_output = d_scores.view, .grains = grains});
        kernels_.run(op::GrainLosses{.losses = losses.view, .grains = device.grain_rows(), .sums = sink.loss_sums()});
        sink.end();
    }

    [[nodiscard]] std::vector<float> losses(const TokenBatch& batch, const Weights& weights) override {
        const DeviceBatch device(kernels_, batch, AttentionMask::causal);
        const Leased<float> scores =
            take_matrix<float>(kernels_.arena(), batch.rows(), parameters_[after_word].columns());
        return downloaded(kernels_, run(device, weights, scores.view, {}).view);
    }

private:
    // The loss of each row.
    [[nodiscard]] Leased<float> run(const DeviceBatch& batch, const Weights& weights, View<float> scores,
                                    AnyView d_scores, float scale = 1) {
        Leased<float> losses = take_matrix<float>(kernels_.arena(), 1, batch.rows());
        kernels_.run(op::Embed{.tokens = batch.tokens(),
                               .table = table(weights, after_word),
                               .positions = batch.positions(),
                               .position_table = table(weights, at_place),
                               .dropout = {},
                               .output = scores});
        kernels_.run(op::CrossEntropy{
            .logits = scores, .targets = batch.targets(), .losses = losses.view, .d_logits = d_scores, .scale = scale});
        return losses;
    }

    [[nodiscard]] View<const float> table(const Weights& weights, Table which) const {
        const Parameter& parameter = parameters_[which];
        return {weights.master_of(parameters_, which), parameter.rows(), parameter.columns()};
    }

    ParameterList parameters_;
    Kernels& kernels_;
    Choices choices_;
};

class BigramSpec final : public ModelSpec {
public:
    BigramSpec(int64_t vocabulary, int64_t places, std::string json)
        : ModelSpec({.family = "bigram",
                     .vocabulary = vocabulary,
                     .positions = places,
                     .config_json = std::move(json),
                     .computation_json = nlohmann::json{{"vocabulary", vocabulary}}.dump(),
                     .parameters = tables_of(vocabulary, places)}) {}

    [[nodiscard]] std::unique_ptr<Model> make(const ModelOptions& /*options*/, Kernels& kernels) const override {
        return std::make_unique<Bigram>(parameters(), kernels);
    }
    [[nodiscard]] std::shared_ptr<const ModelSpec> at_most(const ModelLimits& limits) const override {
        return std::make_shared<BigramSpec>(std::min(vocabulary(), limits.vocabulary),
                                            std::min(positions(), limits.positions), config_json());
    }
    [[nodiscard]] double gradient_flops(int64_t /*tokens*/) const override { return 0; }  // lookups are no products
};

}  // namespace

ModelFamily bigram_family() {
    return {.names = {"bigram"}, .parse = [](std::string_view json, const std::string& where, int64_t /*length*/) {
                const ConfigFields fields = ConfigFields::parse(json, where);
                return std::make_shared<BigramSpec>(fields.size("vocab_size", 257), fields.size("places", 1024),
                                                    std::string(json));
            }};
}

}  // namespace accrue::testing
