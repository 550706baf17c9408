#include "accrue/assess/diagnosis.h"

#include <cmath>

#include <fmt/format.h>

namespace accrue {
namespace {

// Two gradients that differ by a factor alone: what rounding leaves of the rest is far smaller.
constexpr double kSmallRest = 1e-2;
constexpr double kSameFactor = 1e-3;

std::string samples_text(const WindowLab& lab, int64_t grain) {
    const std::vector<int64_t> samples = lab.loader().samples_of(lab.window(), grain);
    return samples.size() == 1 ? fmt::format("sample {}", samples.front())
                               : fmt::format("samples {}", fmt::join(samples, ", "));
}

// Is `factor` what dividing by the number of micro-batches would make of the whole window's gradient?
bool is_division_by_micro_batches(double factor, const Computed& got, const Computed& whole) {
    const double expected = static_cast<double>(whole.step.micro_batches) / static_cast<double>(got.step.micro_batches);
    return expected != 1 && std::abs(factor / expected - 1) < kSameFactor;
}

std::optional<Diagnosis> diagnose_factor(const Computed& got, const Computed& whole, double factor, const char* what) {
    if (std::abs(factor - 1) < kSameFactor) {
        return std::nullopt;
    }
    const std::string detail =
        fmt::format("{} micro-batch(es): {:.4g} times that of the whole window", got.step.micro_batches, factor);
    if (is_division_by_micro_batches(factor, got, whole)) {
        return Diagnosis{.what = fmt::format("{} is divided by the number of micro-batches", what), .detail = detail};
    }
    return Diagnosis{.what = fmt::format("{} is multiplied by something that depends on the cut", what),
                     .detail = detail};
}

// The first grain that is not what it is in the whole window.
std::optional<Diagnosis> diagnose_grains(const WindowLab& lab, const Computed& got, const Computed& whole) {
    const ParameterList& list = lab.model().parameters();
    for (int64_t grain = 0; grain < got.ledger.grains(); ++grain) {
        const bool has_same_loss = same_loss(got.ledger, whole.ledger, grain);
        for (int64_t tensor = 0; tensor < got.ledger.tensors(); ++tensor) {
            if (!has_same_loss || !same_record(got.ledger, whole.ledger, grain, tensor)) {
                const std::string detail =
                    has_same_loss
                        ? fmt::format("grain {} ({}), gradient of {}", grain, samples_text(lab, grain),
                                      list[tensor].name)
                        : fmt::format("grain {} ({}), loss {:.9g} instead of {:.9g}", grain, samples_text(lab, grain),
                                      got.ledger.grain(grain).loss_sum, whole.ledger.grain(grain).loss_sum);
                return Diagnosis{.what = "a grain changes with the grains that are computed beside it",
                                 .detail = detail};
            }
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<Diagnosis> diagnose_alone(const WindowLab& lab, const Computed& got) {
    for (int64_t grain = 0; grain < got.ledger.grains(); ++grain) {
        const auto& [finished, loss, tokens] = got.ledger.grain(grain);
        const int64_t wanted = lab.grain_tokens()[static_cast<size_t>(grain)];
        if (finished && tokens == wanted) {
            continue;
        }
        const bool dropped = !finished || tokens == 0;
        return Diagnosis{
            .what = dropped ? fmt::format("grain {} is missing from the sum", grain)
                            : fmt::format("grain {} counts {} tokens, but the data has {}", grain, tokens, wanted),
            .detail =
                fmt::format("{}; the sum counts {} tokens", samples_text(lab, grain), got.ledger.counted_tokens())};
    }
    return std::nullopt;
}

Diagnosis diagnose(const WindowLab& lab, const Computed& got, const Computed& whole,
                   const std::optional<GradientDifference>& difference) {
    if (!difference) {
        const double factor = whole.first_moment_norm > 0 ? got.first_moment_norm / whole.first_moment_norm : 1.0;
        return diagnose_factor(got, whole, factor, "the update")
            .value_or(Diagnosis{.what = "the sums are the same, but the update is not", .detail = ""});
    }
    if (difference->rest < kSmallRest) {
        if (auto factor = diagnose_factor(got, whole, difference->ratio, "the gradient")) {
            return *factor;
        }
    }
    if (auto grains = diagnose_grains(lab, got, whole)) {
        return *grains;
    }
    return {.what = "every grain is the same, but their sum is not",
            .detail = fmt::format("relative error {:.2g}, most in {}", difference->relative_error,
                                  lab.model().parameters()[difference->tensor].name)};
}

}  // namespace accrue
