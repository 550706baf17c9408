#include "tests/bigram_family.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "accrue/model/config_fields.h"
#include "accrue/model/head.h"

namespace accrue::testing {
namespace {

constexpr float kDeviation = 0.02F;

// The place of each table in the list of parameters.
enum Table : int64_t { after_word, at_place };

ParameterList tables_of(int64_t vocabulary, int64_t places) {
    const auto whole_lines = [](int64_t elements) { return (elements + 15) / 16 * 16; };
    const int64_t first = whole_lines(vocabulary * vocabulary);
    return {.parameters = {{.name = "after_word.weight",
                            .shape = {vocabulary, vocabulary},
                            .initial_deviation = kDeviation},
                           {.name = "at_place.weight",
                            .shape = {places, vocabulary},
                            .offset = first,
                            .initial_deviation = kDeviation}},
            .flat_elements = first + whole_lines(places * vocabulary)};
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
        const Leased<float> d_scores =
            take_matrix<float>(kernels_.arena(), batch.rows(), parameters_[after_word].columns());
        const std::vector<float> losses = run(batch, weights, d_scores.view, d_scores.view);
        for (const auto& [number, range] : batch.grains) {
            const View<const float> here = d_scores.view.slice_rows(range.first, range.rows);
            add_rows(here, batch.tokens, range, sink.sum_of(number, after_word));
            add_rows(here, batch.positions, range, sink.sum_of(number, at_place));
            double loss = 0;
            int64_t counted = 0;
            for (int64_t row = range.first; row < range.first + range.rows; ++row) {
                loss += static_cast<double>(losses[static_cast<size_t>(row)]);
                counted += batch.targets[static_cast<size_t>(row)] >= 0 ? 1 : 0;
            }
            sink.finish_grain(number, loss, counted);
        }
    }

    [[nodiscard]] std::vector<float> losses(const TokenBatch& batch, const Weights& weights) override {
        const Leased<float> scores =
            take_matrix<float>(kernels_.arena(), batch.rows(), parameters_[after_word].columns());
        return run(batch, weights, scores.view, {});
    }

private:
    // The loss of each row.
    [[nodiscard]] std::vector<float> run(const TokenBatch& batch, const Weights& weights, View<float> scores,
                                         AnyView d_scores) {
        const Leased<int32_t> tokens = upload(batch.tokens);
        const Leased<int32_t> targets = upload(batch.targets);
        const Leased<int32_t> places = upload(batch.positions);
        const Leased<float> losses = take_matrix<float>(kernels_.arena(), 1, batch.rows());
        kernels_.embed(tokens.view, table(weights, after_word), places.view, table(weights, at_place), {}, scores);
        kernels_.cross_entropy(scores, targets.view, losses.view, d_scores);
        std::vector<float> host(static_cast<size_t>(batch.rows()));
        kernels_.copy_out(losses.view, host);
        return host;
    }

    void add_rows(View<const float> d_scores, const std::vector<int32_t>& ids, const RowRange& range,
                  const SumView& sum) {
        const auto here = std::span(ids).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.rows));
        const Lookup lookup(here);
        kernels_.add_lookup_grad(d_scores, lookup.index(), {}, sum);
    }

    [[nodiscard]] View<const float> table(const Weights& weights, Table which) const {
        const Parameter& parameter = parameters_[which];
        return {weights.master.data + parameter.offset, parameter.rows(), parameter.columns()};
    }

    [[nodiscard]] Leased<int32_t> upload(const std::vector<int32_t>& host) {
        Leased<int32_t> result = take_matrix<int32_t>(kernels_.arena(), 1, static_cast<int64_t>(host.size()));
        kernels_.copy_in(std::as_bytes(std::span(host)),
                         {reinterpret_cast<std::byte*>(result.view.data), host.size() * sizeof(int32_t)});
        return result;
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
