#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "accrue/dist/coordinator_desk.h"
#include "accrue/dist/link.h"
#include "accrue/train/evaluate.h"
#include "accrue/train/inputs.h"
#include "accrue/train/numerics.h"
#include "accrue/train/step.h"
#include "accrue/train/team/distant_kernels.h"
#include "accrue/train/team/gpu_share.h"
#include "accrue/train/team/state_desk.h"
#include "accrue/train/team/worker_share.h"

namespace accrue {

// Every worker that had the state is gone: it has to come from the last checkpoint.
class StateLost final : public Error {
public:
    StateLost() : Error("all workers that had the state of the run are gone") {}
};

// The run is to stop, and nobody is there who has its state: what is on disk is what there is.
class StoppedWithoutWorkers final : public Error {
public:
    StoppedWithoutWorkers() : Error("the run was stopped while no worker was there") {}
};

// Where workers come from, and whether they are well.
class Workforce {
public:
    virtual ~Workforce() = default;
    // The leader answers from now on.
    virtual void start(Answers& leader) = 0;
    // Several times a second while the leader waits: what happened since, a line each. An Error ends the run.
    [[nodiscard]] virtual std::vector<std::string> look_after() = 0;
    // The run has ended for all of them.
    virtual void end() = 0;
    // So many were killed so far.
    [[nodiscard]] virtual int64_t killed() const = 0;
};

// Leads a run whose steps workers compute: gives them settings, grains and the state to begin with, says what comes next, and
// reads the state where the run wants to keep it. Computes nothing itself.
class TeamLeader final : public Answers {
public:
    // Where workers compute: they share out this machine, or each has another one and plans for itself.
    enum class Machines { this_one, their_own };
    struct Options {
        int64_t workers = 1;
        int64_t threads_each = 1;  // on this machine
        Machines machines = Machines::this_one;
        std::string asked = {};  // settings that workers who say theirs must have, too
    };
    // All must outlive it.
    TeamLeader(CoordinatorDesk& desk, Workforce& workforce, const Options& options)
        : desk_(desk), workforce_(workforce), options_(options) {}

    // A run whose state the workers hold; all of it must outlive the last call. `note` shows a line.
    struct Run {
        const RunInputs& inputs;
        const Loader& loader;
        Numerics numerics;  // of its own: workers ask while the run reads a checkpoint again
        const StopFlag& stop;
        std::string name = {};  // of the run, for people
        std::function<void(const std::string& line)> note;
    };
    // Starts the workers. `engine` is on `kernels`, which were made by make_kernels().
    void begin(const Run& run, Engine& engine);
    [[nodiscard]] std::unique_ptr<Kernels> make_kernels(Arena& arena);

    // Gives the workers the state that `load` writes into the engine; again from the beginning, if one is lost meanwhile. What
    // they may have of the run, of a later step say, counts no longer.
    void fill(Engine& engine, const std::function<void()>& load);
    // After a StateLost: waits for workers who could hold a state, and says whether nobody of them has the run's. Whoever has it
    // may have been cut off from this process for so long that it had to join again.
    [[nodiscard]] bool is_state_lost();
    // As run_step() (step.h). Throws StateLost where only a checkpoint helps.
    [[nodiscard]] std::optional<StepReport> step(Engine& engine, const Window& window, const StopFlag& stop);
    // As evaluate_unless_stopped() (evaluate.h).
    [[nodiscard]] std::optional<Evaluation> evaluate(const Dataset& data, int64_t samples_at_once, const StopFlag& stop,
                                                     const std::function<void(int64_t done, int64_t total)>& told);
    // Workers that were let in with other bits than the run's, the first of each kind.
    [[nodiscard]] std::vector<NumericsRecord::Guest> guests() const;
    // Tells all workers that the run has ended, and waits until they know.
    enum class How { done, stopped };
    void end(How how);

    [[nodiscard]] std::string answer(const std::string& worker, const std::string& subject,
                                     const std::string& question) override;

    // The settings as the workers get them: of this machine each has its share, an Error if that is too little; on a machine of
    // its own it finds out itself what it may use.
    [[nodiscard]] Settings settings_of_worker(Settings settings, const ModelSpec& model);
    [[nodiscard]] Machines machines() const { return options_.machines; }
    // How workers share the state of a run with these settings.
    [[nodiscard]] StateSharing sharing_of(const Settings& settings) const;

private:
    // Some samples of the validation data, and what became of them.
    struct Range {
        int64_t grain = 0;
        int64_t given_in_roster = 0;  // 0 = not given
        std::vector<float> losses;
        std::vector<bool> is_counted;
        bool is_done = false;
    };
    struct Validation {
        const Dataset* data = nullptr;
        Window all;
        std::vector<Range> ranges;
        bool stops = false;
    };

    int64_t set_task(const nlohmann::ordered_json& words) { return desk_.set_task(words.dump()); }
    // What all said of a task; nothing if the roster that it began in has ended, where that is asked for.
    enum class Patience { any_roster, one_roster };
    [[nodiscard]] std::optional<std::string> answer_of(int64_t task, Patience patience, const StopFlag& stop);
    void look_after();
    [[noreturn]] void stop_without_workers();
    void tell_end(How how);
    // A stop ends the waiting for too few where there is nothing yet that a checkpoint lacks.
    enum class Waiting { to_begin, to_go_on };
    [[nodiscard]] CoordinatorDesk::Standing formed_roster(Waiting waiting, int64_t least_members = 1);
    [[nodiscard]] int64_t least_members() const;  // that could hold the state together
    [[nodiscard]] int64_t open_session();
    void close_session();
    void give_up(int64_t session);
    void begin_session(const CoordinatorDesk::Standing& roster);
    void read_open_window(Engine& engine);
    void add_measured(StepReport& report);
    [[nodiscard]] Packet next_range(const Packet& question);
    [[nodiscard]] WorkerShare share_of_worker(const Settings& settings, const ModelSpec& model);
    [[nodiscard]] std::string job(const std::string& worker);
    void welcome(const std::string& worker, const std::string& address);
    void require_same_settings(const std::string& worker, const std::string& asked) const;
    void check_numerics(const std::string& worker, const std::string& record);
    void require_in_data(const Window& window) const;

    CoordinatorDesk& desk_;
    Workforce& workforce_;
    Options options_;
    std::optional<Run> run_;
    StateDesk state_;
    std::mutex look_mutex_;
    std::string fault_;  // that ends the run; empty = none
    std::recursive_mutex session_mutex_;
    int64_t session_task_ = 0;
    int64_t filled_roster_ = 0;  // whose members got the state after they met
    bool fills_ = false;
    mutable std::mutex mutex_;                                // of what follows, and of the data
    std::map<std::string, nlohmann::ordered_json> measured_;  // by worker, of the step that is computed
    int64_t measured_step_ = 0;
    std::vector<NumericsRecord::Guest> guests_;
    std::optional<WorkerShare> gpu_share_;  // measured once, before any worker takes its own
    std::optional<GpuPlaces> gpu_places_;
    std::map<std::string, std::string> addresses_;  // of workers, at which others meet them
    std::map<std::string, std::pair<double, int64_t>> exchanged_before_;
    std::string way_of_sums_;  // as workers last said it
    Validation validation_;
};

}  // namespace accrue
