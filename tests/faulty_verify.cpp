// `accrue verify` of a program with a deliberate mistake in it: the first argument names the mistake. For tests only: what
// verify cannot find here it would not find in the real program.

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "accrue/cli/verify_command.h"
#include "accrue/kernels/device.h"
#include "accrue/train/initial_weights.h"

namespace accrue::testing {
namespace {

// What a mistake in one place knows from another: in how many micro-batches the step goes.
int64_t g_micro_batches = 1;

// Hands all operations on to real kernels, and may spoil what comes out of them.
class WrongKernels : public Kernels {
public:
    explicit WrongKernels(std::unique_ptr<Kernels> real) : real_(std::move(real)) {}
    [[nodiscard]] std::string description() const override { return real_->description(); }
    [[nodiscard]] Arena& arena() override { return real_->arena(); }
    [[nodiscard]] DeviceTraits traits() const override { return real_->traits(); }
    [[nodiscard]] std::string numerics() override { return real_->numerics(); }
    void submit() override { real_->submit(); }

protected:
    // Values in a device's memory, row by row.
    [[nodiscard]] std::vector<float> row_of(View<float> values, int64_t row) {
        std::vector<float> host(static_cast<size_t>(values.columns));
        download(*real_, static_cast<const float*>(values.row(row)), std::span(host));
        return host;
    }
    void put_row(View<float> values, int64_t row, const std::vector<float>& host) {
        upload(*real_, std::span(host), values.row(row));
    }

private:
    void compute(const Operation& operation) override {
        real_->run(operation);
        spoil(operation);
    }
    virtual void spoil(const Operation& operation) = 0;

    std::unique_ptr<Kernels> real_;
};

// As `loss / accumulation_steps` does.
class DividesTheLoss final : public WrongKernels {
    using WrongKernels::WrongKernels;
    void spoil(const Operation& operation) override {
        const auto* loss = std::get_if<op::CrossEntropy>(&operation);
        if (loss == nullptr || loss->d_logits.empty()) {
            return;
        }
        const View<float> values = loss->d_logits.as<float>();
        for (int64_t row = 0; row < values.rows; ++row) {
            std::vector<float> host = row_of(values, row);
            for (float& value : host) {
                value /= static_cast<float>(g_micro_batches);
            }
            put_row(values, row, host);
        }
    }
};

// As batch normalisation does: one scale for all rows that happen to be computed together.
class NormalisesOverTheBatch final : public WrongKernels {
    using WrongKernels::WrongKernels;
    void spoil(const Operation& operation) override {
        const auto* norm = std::get_if<op::RmsNorm>(&operation);
        if (norm == nullptr) {
            return;
        }
        const View<float> all = norm->inverse_rms;
        std::vector<std::vector<float>> inverse_rms;
        double sum = 0;
        for (int64_t row = 0; row < all.rows; ++row) {
            inverse_rms.push_back(row_of(all, row));
            sum += std::accumulate(inverse_rms.back().begin(), inverse_rms.back().end(), 0.0);
        }
        const auto mean = static_cast<float>(sum / static_cast<double>(all.elements()));
        const View<float> values = norm->output.as<float>();
        for (int64_t row = 0; row < values.rows; ++row) {
            const std::vector<float>& own = inverse_rms[static_cast<size_t>(row)];
            std::vector<float> host = row_of(values, row);
            for (size_t column = 0; column < host.size(); ++column) {
                host[column] *= mean / own[column / static_cast<size_t>(norm->gain.columns)];
            }
            put_row(values, row, host);
            put_row(all, row, std::vector<float>(own.size(), mean));
        }
    }
};

// Divides what it is given by the number of micro-batches, then lets the real optimizer update.
class DividesTheUpdate final : public Optimizer {
public:
    explicit DividesTheUpdate(std::unique_ptr<Optimizer> real) : Optimizer(real->kept()), real(std::move(real)) {}
    void update(const MeanGradient& gradient, const UpdateSettings& settings, const WeightBuffers& weights) override {
        real->update(gradient.scaled(1.0 / static_cast<double>(g_micro_batches)), settings, weights);
    }
    [[nodiscard]] std::vector<StoredMoment> moments() override { return real->moments(); }

    std::unique_ptr<Optimizer> real;
};

// As a loader that takes the last, incomplete batch for padding does. A grain that is not there at all, a step refuses.
class DropsTheLastGrain final : public PassedBatches {
public:
    using PassedBatches::PassedBatches;
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        TokenBatch batch = data().load(window, grains);
        if (batch.grains.back().number == window.grains() - 1) {
            const auto& [first, rows] = batch.grains.back().range;
            std::fill_n(batch.targets.begin() + first, rows, -1);
        }
        return batch;
    }
};

std::optional<StepReport> real_step(Engine& engine, const BatchSource& data, const Window& window,
                                    const StopFlag& stop) {
    g_micro_batches = (window.grains() + engine.rules.micro_batch_grains - 1) / engine.rules.micro_batch_grains;
    return run_step(engine, data, window, stop);
}

template <class Wrong>
std::unique_ptr<Kernels> wrong_kernels(const DeviceChoice& device, Pool& pool, Arena& arena) {
    return std::make_unique<Wrong>(make_kernels(device, pool, arena));
}

ProgramUnderTest program_with(const std::string& mistake) {
    ProgramUnderTest program = real_program();
    program.step = real_step;
    if (mistake == "divides-the-loss") {
        program.kernels = wrong_kernels<DividesTheLoss>;
    } else if (mistake == "normalises-over-the-batch") {
        program.kernels = wrong_kernels<NormalisesOverTheBatch>;
    } else if (mistake == "divides-the-update") {
        program.step = [](Engine& engine, const BatchSource& data, const Window& window, const StopFlag& stop) {
            auto wrong = std::make_unique<DividesTheUpdate>(std::move(engine.optimizer));
            DividesTheUpdate& optimizer = *wrong;
            engine.optimizer = std::move(wrong);
            auto report = real_step(engine, data, window, stop);
            engine.optimizer = std::unique_ptr<Optimizer>(std::move(optimizer.real));
            return report;
        };
    } else if (mistake == "drops-the-last-grain") {
        program.step = [](Engine& engine, const BatchSource& data, const Window& window, const StopFlag& stop) {
            return real_step(engine, DropsTheLastGrain(data), window, stop);
        };
    } else if (mistake != "none") {
        throw std::invalid_argument("there is no mistake named " + mistake);
    }
    return program;
}

}  // namespace
}  // namespace accrue::testing

int main(int argc, char** argv) {
    const accrue::ProgramUnderTest program = accrue::testing::program_with(argc > 1 ? argv[1] : "");
    CLI::App app("accrue with a mistake in it");
    accrue::VerifyCommand command;
    accrue::ExitCode code = accrue::ExitCode::done;
    accrue::add_verify_command(app, command, code, program);
    try {
        app.parse(argc - 1, argv + 1);
    } catch (const CLI::ParseError& error) {
        return app.exit(error);
    }
    return static_cast<int>(code);
}
