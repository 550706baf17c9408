#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/base/clock.h"
#include "accrue/observe/metrics.h"
#include "accrue/observe/progress.h"
#include "accrue/train/engine.h"
#include "accrue/train/inputs.h"
#include "accrue/train/numerics.h"
#include "accrue/train/plan_choice.h"
#include "accrue/train/run_folder.h"
#include "accrue/train/step.h"

namespace accrue {

// What a run leaves on disk and shows while it goes on: metrics, checkpoints, the model, the report, lines of progress.
// When something is due, the trainer says.
class Recorder {
public:
    // Of the trained model, at the end: left out where nothing can be computed here.
    enum class Text { is_shown, is_left_out };
    // A run in this process; all of it must outlive the recorder.
    struct Run {
        const RunInputs& inputs;
        const RunFolder& folder;
        const PlanChoice& plan;
        const std::string& definition;
        const NumericsRecord& numerics;
        Engine& engine;
        const Loader& loader;
        Pool& pool;
        Progress& progress;
        Text text = Text::is_shown;
    };
    explicit Recorder(const Run& run) : run_(run) {}

    // What is about to be done, before the weights are there.
    void tell_job() const;
    // Once every check has passed and the weights are there: cuts the metrics back to the engine's step, and tells what a
    // user should know. Continued: from a checkpoint.
    enum class Beginning { fresh, continued };
    void begin(Beginning beginning);
    // The validation loss before the first step, if the metrics of a continued run have it.
    [[nodiscard]] std::optional<double> validation_before() const;
    // Has the newest step's line no validation loss?
    [[nodiscard]] bool lacks_validation() const;
    // Adds it to that line.
    void add_validation(double loss) const;

    // From here on steps take time.
    void start();
    [[nodiscard]] double seconds() const { return seconds_since(start_); }

    // What a step's line says besides the step, and whether a checkpoint belongs to it.
    struct Beside {
        std::optional<double> validation_loss = {};
        std::optional<double> validation_loss_before = {};
        bool is_checkpoint = false;
    };
    // A step that is done: its line and, where it is due, its checkpoint are on disk when this returns.
    void add_step(const StepReport& report, const Beside& beside);
    // All lines so far are safe from a power cut.
    void sync() { metrics_->sync(); }
    void save_checkpoint();

    // The model, the report, and meanwhile some text of the model, unless `stop` is set. True if there was text to show.
    [[nodiscard]] bool finish(const StopFlag& stop);
    // The same text where it was left out: of the model as it was written, once the workers are gone and their memory is free.
    [[nodiscard]] bool show_text_of_written_model(const StopFlag& stop);

private:
    [[nodiscard]] int64_t peak_bytes();
    void tell_notes() const;
    void tell_skip(const StepReport& report) const;
    void tell_step(const StepReport& report, const std::optional<double>& validation_loss, int64_t peak_bytes) const;
    [[nodiscard]] bool write_model(const StopFlag& stop);
    // What the text goes on from; nothing if none is shown.
    [[nodiscard]] std::vector<int32_t> first_words(const StopFlag& stop) const;
    void show_text(Generator& generator, const Weights& weights, std::vector<int32_t> prompt, const StopFlag& stop);
    void add_companions(const std::filesystem::path& model) const;
    void write_report() const;

    Run run_;
    std::optional<MetricsFile> metrics_;
    int64_t peak_of_gpu_ = 0;
    Clock::time_point start_ = Clock::now();
    Clock::time_point epoch_start_ = start_;
    int64_t first_step_ = 0;
    std::optional<double> startup_seconds_;  // until the line of the first step tells them
};

}  // namespace accrue
