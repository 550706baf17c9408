#include "accrue/train/team/team_worker.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/dist/gloo_mesh.h"
#include "accrue/dist/linked_workers.h"
#include "accrue/kernels/gpus.h"
#include "accrue/train/engine.h"
#include "accrue/train/load_ahead.h"
#include "accrue/train/metrics_line.h"
#include "accrue/train/numerics.h"
#include "accrue/train/plan_choice.h"
#include "accrue/train/rehearsal.h"
#include "accrue/train/run_facts.h"
#include "accrue/train/team/packet.h"
#include "accrue/train/team/remote_batches.h"
#include "accrue/train/team/roster_mesh.h"
#include "accrue/train/team/serve_state.h"
#include "accrue/train/team/state_parts.h"
#include "accrue/train/team/worker_gpu.h"
#include "accrue/train/team/worker_job.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

// To read a large model takes its leader long.
constexpr std::chrono::hours kMostToBeFilled{24};

void broadcast_bytes(Mesh& mesh, int64_t from, std::string& bytes) {
    int64_t size = std::ssize(bytes);
    mesh.broadcast(
        from, sizeof size,
        [&](int64_t first, std::span<std::byte> into) {
            std::memcpy(into.data(), reinterpret_cast<const std::byte*>(&size) + first, into.size());
        },
        [&](int64_t first, std::span<const std::byte> some) {
            std::memcpy(reinterpret_cast<std::byte*>(&size) + first, some.data(), some.size());
        });
    bytes.resize(static_cast<size_t>(size));
    mesh.broadcast(
        from, size,
        [&](int64_t first, std::span<std::byte> into) { std::memcpy(into.data(), bytes.data() + first, into.size()); },
        [&](int64_t first, std::span<const std::byte> some) {
            std::memcpy(bytes.data() + first, some.data(), some.size());
        });
}

class TeamWorker {
public:
    TeamWorker(Link& link, const TeamWorkerOptions& options)
        : link_(link),
          options_(options),
          job_(decoded(link.ask("job", encoded({.words = {{"worker", options.name},
                                                          {"address", options.address},
                                                          {"asked", options.asked}}})))
                   .words,
               options),
          pool_(static_cast<int>(job_.settings.compute.threads)),
          plan_(job_.to_plan, job_.model, job_.longest, pool_.threads(), {}, memory_of_machine, job_.sharing),
          arena_(make_backing(device_of(job_.settings.compute), plan_.address_bytes()),
                 make_host_part(device_of(job_.settings.compute), plan_.plan().host_bytes)),
          kernels_(make_kernels_in_memory()),
          engine_(job_.settings, job_.model, job_.longest, *kernels_, plan_.plan().choices, job_.sharing),
          batches_(link),
          ahead_(batches_, [this](const DataPosition& position) { return batches_.window_from(position); }),
          device_(options.address),
          membership_(options.name),
          linked_(link, membership_),
          shared_(engine_, linked_, job_.sharing),
          gpu_(job_),
          mesh_(link) {
        engine_.choose(plan_.plan().choices);
        engine_.rules.micro_batch_grains = plan_.plan().micro_batch_grains;
        options_.note(fmt::format("{}; memory planned: {}", kernels_->description(), format_bytes(plan_.peak_bytes())));
        rehearse(engine_, job_.longest);
    }

    [[nodiscard]] WorkEnd run();

private:
    [[nodiscard]] std::unique_ptr<Kernels> make_kernels_in_memory();
    // Until the run has ended.
    void work_in_roster(const Roster& roster);
    void level_out(const Roster& roster);
    void level_out_shared(const Roster& roster);
    void take_standing(int64_t from, const Roster& roster, const std::string& standing);
    void share_state(int64_t from);
    void spread(int64_t from, bool shares_state, const Roster& roster);
    // What there is to say of a task. In a new roster the last one comes again, whether or not it was done.
    [[nodiscard]] std::string carry_out(int64_t number, const Json& task, const Roster& roster);
    [[nodiscard]] std::string fill(int64_t number, const Roster& roster);
    [[nodiscard]] std::string fill_shared(const Roster& roster);
    [[nodiscard]] std::string step(const Json& task, const Roster& roster);
    void say(const StepReport& report);
    [[nodiscard]] bool is_shared() const { return !job_.sharing.is_everywhere(); }
    void validate();
    void tell_measured(const StepReport& report);
    [[nodiscard]] int64_t peak_bytes();

    Link& link_;
    TeamWorkerOptions options_;
    WorkerJob job_;
    Pool pool_;
    PlanChoice plan_;
    Arena arena_;
    std::unique_ptr<Kernels> kernels_;
    Engine engine_;
    RemoteBatches batches_;
    LoadAhead ahead_;
    MeshDevice device_;
    Membership membership_;
    LinkedWorkers linked_;
    SharedState shared_;
    WorkerGpu gpu_;
    std::string way_of_sums_;  // on GPUs, for people
    RosterMesh mesh_;
    bool has_state_ = false;
    bool was_in_roster_ = false;        // with this state: what the sums hold was computed there, or was the leader's
    std::string said_of_step_;          // of the newest one
    std::optional<StepReport> unsaid_;  // of it, where weights were not whole when a roster ended
    int64_t peak_bytes_ = 0;
    std::optional<WorkEnd> end_;
    std::unique_lock<std::timed_mutex> staying_;  // TeamWorkerOptions::stays
};

std::unique_ptr<Kernels> TeamWorker::make_kernels_in_memory() {
    const Numerics mine = numerics_of(job_.settings, *job_.model, job_.longest, pool_);
    (void)link_.ask("numerics", to_json(NumericsRecord{.now = mine, .changes = {}}));
    arena_.keep(plan_.plan().arena_bytes);
    arena_.touch({.pool = &pool_});
    return make_kernels(device_of(job_.settings.compute), pool_, arena_);
}

WorkEnd TeamWorker::run() {
    options_.note("waiting for the others");
    while (!end_) {
        const Roster& last = membership_.roster();
        const Roster roster = link_.meet({.worker = options_.name,
                                          .term = last.term,
                                          .roster = last.number,
                                          .step = has_state_ ? engine_.state.step : -1});
        if (roster.term != job_.term) {
            throw LedAnew();
        }
        membership_.enter(roster);
        if (options_.stays != nullptr) {
            staying_ = std::unique_lock(*options_.stays);
        }
        options_.note(fmt::format("workers now: {}", fmt::join(roster.workers, ", ")));
        try {
            work_in_roster(roster);
        } catch (const RosterChanged&) {
            // All meet again; the own sums are as they were.
        }
        staying_ = {};
        mesh_.keep(nullptr, 0);
    }
    return *end_;
}

void TeamWorker::work_in_roster(const Roster& roster) {
    const auto size = std::ssize(roster.workers);
    mesh_.keep(
        connect_mesh(device_, link_, {.term = roster.term, .roster = roster.number, .rank = roster.rank, .size = size}),
        roster.number);
    way_of_sums_ = gpu_.meet(*mesh_, roster.rank, size);
    if (!way_of_sums_.empty()) {
        options_.note(way_of_sums_);
    }
    linked_.use(*mesh_);
    level_out(roster);
    staying_ = {};
    for (int64_t last = 0;;) {
        const Task task = link_.task_after(membership_.next_call(), last);
        last = task.number;
        const Json words = Json::parse(task.words);
        if (words.at("do") == "end") {
            link_.leave();
            end_ = words.value("is_done", true) ? WorkEnd::done : WorkEnd::stopped;
            return;
        }
        const std::string said = carry_out(task.number, words, roster);
        (void)link_.done(membership_.next_call(), task.number, said);
    }
}

// All stand where the first one stands that is ahead: those behind it missed an update, or are new. Of those at the same step,
// the first was in the last roster, if anybody here was.
void TeamWorker::level_out(const Roster& roster) {
    if (is_shared()) {
        level_out_shared(roster);
        return;
    }
    const int64_t newest = *std::ranges::max_element(roster.steps);
    if (newest < 0) {
        return;  // the leader fills one
    }
    const bool is_one_behind = std::ranges::any_of(roster.steps, [&](int64_t step) { return step != newest; });
    if (is_one_behind) {
        options_.note(has_state_ ? "giving the run's weights and moments to others"
                                 : "getting the run's weights and moments");
    }
    spread(std::ranges::find(roster.steps, newest) - roster.steps.begin(), is_one_behind, roster);
}

void TeamWorker::level_out_shared(const Roster& roster) {
    const auto apply = [this] {
        said_of_step_.clear();
        unsaid_ = apply_window(engine_, linked_.norm());
    };
    const auto from = shared_.level_out(*mesh_, roster.rank, {.has_state = has_state_, .apply = apply});
    if (from) {
        if (unsaid_) {
            say(*unsaid_);
        }
        spread(*from, false, roster);
    }
}

void TeamWorker::spread(int64_t from, bool shares_state, const Roster& roster) {
    std::string standing =
        roster.rank == from ? Json{{"facts", standing_of(engine_)}, {"said", said_of_step_}}.dump() : "";
    broadcast_bytes(*mesh_, from, standing);
    if (shares_state) {
        has_state_ = roster.rank == from;  // the others', until all of it is there
        share_state(from);
    }
    take_standing(from, roster, standing);
    has_state_ = true;
}

void TeamWorker::share_state(int64_t from) {
    const auto parts = state_parts(engine_);
    for (size_t part = 0; part < parts_between_windows(parts); ++part) {
        std::byte* const bytes = parts[part].data();
        mesh_->broadcast(
            from, std::ssize(parts[part]),
            [&](int64_t first, std::span<std::byte> into) {
                download(engine_.kernels, static_cast<const std::byte*>(bytes) + first, into);
            },
            [&](int64_t first, std::span<const std::byte> some) { upload(engine_.kernels, some, bytes + first); });
    }
    engine_.refresh_copy();
}

// Sums stay where they are of the same window, and nobody has begun it without them.
void TeamWorker::take_standing(int64_t from, const Roster& roster, const std::string& standing) {
    const Json words = Json::parse(standing);
    const std::string facts = words.at("facts");
    const bool is_there = roster.rank == from || facts == standing_of(engine_);
    said_of_step_ = words.at("said");
    unsaid_.reset();
    if (!is_there) {
        stand_there_too(engine_, facts);
    } else if (!roster.keeps_sums && was_in_roster_ && engine_.state.open) {
        engine_.open(*engine_.state.open);
    }
    was_in_roster_ = true;
}

std::string TeamWorker::carry_out(int64_t number, const Json& task, const Roster& roster) {
    const std::string what = task.at("do");
    if (what == "wait") {
        return "waited";
    }
    if (what == "fill") {
        return fill(number, roster);
    }
    if (!has_state_) {
        return kNoState;
    }
    if (what == "step") {
        return step(task, roster);
    }
    if (what == "serve") {
        if (is_shared()) {
            (void)serve_shared_state(link_, *mesh_, roster.rank, engine_, shared_, has_state_);
        } else if (roster.rank == 0) {
            (void)serve_state(link_, engine_);
        }
        return "served";
    }
    if (what == "validate") {
        validate();
        return "validated";
    }
    throw Error(cat("the run's leader wants \"", what, "\", which this program does not know."));
}

// The leader gives the state to the first worker, which gives it to all others.
std::string TeamWorker::fill(int64_t number, const Roster& roster) {
    if (is_shared()) {
        return fill_shared(roster);
    }
    const std::string key = cat("filled-", number);
    std::string has_state = has_state_ ? "yes" : "no";
    if (roster.rank == 0) {
        has_state_ = false;
        if (serve_state(link_, engine_) == Served::filled) {
            has_state = "yes";
            said_of_step_.clear();
            was_in_roster_ = false;
        }
        link_.set(key, has_state);
    } else {
        has_state = link_.get(key, kMostToBeFilled);
    }
    if (has_state == "no") {
        return kNoState;
    }
    spread(0, true, roster);
    return engine_.weights_hash();
}

// The leader gives the state to the first worker, which passes on what it says: each takes what it keeps.
std::string TeamWorker::fill_shared(const Roster& roster) {
    if (!has_state_ && !shared_.begin(roster.rank, std::ssize(roster.workers))) {
        return kNoState;
    }
    if (serve_shared_state(link_, *mesh_, roster.rank, engine_, shared_, has_state_) == Served::filled) {
        shared_.complete(*mesh_);
        has_state_ = true;
        said_of_step_.clear();
        was_in_roster_ = false;
    }
    if (!has_state_) {
        return kNoState;
    }
    spread(0, false, roster);
    return engine_.weights_hash();
}

std::string TeamWorker::step(const Json& task, const Roster& roster) {
    const int64_t number = task.at("step");
    if (engine_.state.step == number && !said_of_step_.empty()) {
        return said_of_step_;  // done in a roster that ended before all had said so
    }
    if (engine_.state.step + 1 != number) {
        throw Error(
            cat("the run's leader wants step ", number, ", but this worker has done ", engine_.state.step, "."));
    }
    const StopFlag never{false};
    const auto report = run_step(engine_, linked_.workers(), ahead_, window_of(task.at("window")), never);
    if (!report) {
        return kLeftOpen;
    }
    said_of_step_.clear();
    if (is_shared() && !report->skipped) {
        shared_.begin_update();
        unsaid_ = report;
        shared_.gather_weights(*mesh_);
    }
    say(*report);
    if (task.value("is_mixed", false)) {
        // Processors of different kinds make different weights of the same sums: all take those of the first.
        has_state_ = roster.rank == 0;
        spread(0, true, roster);
    }
    tell_measured(*report);
    return said_of_step_;
}

// All members must say the same of a step, down to the weights.
void TeamWorker::say(const StepReport& report) {
    said_of_step_ =
        Json{{"report", json_of(report)}, {"facts", facts_json(engine_)}, {"weights", engine_.weights_hash()}}.dump();
    unsaid_.reset();
}

// Of the memory that its arena lies in.
int64_t TeamWorker::peak_bytes() {
    const DeviceName device = device_of(job_.settings.compute).name;
    peak_bytes_ = device.kind == DeviceKind::cuda ? std::max(peak_bytes_, memory_of_gpu(device.gpu).process_bytes)
                                                  : peak_resident_bytes();
    return peak_bytes_;
}

void TeamWorker::tell_measured(const StepReport& report) {
    (void)link_.ask("measured", encoded({.words = {{"step", report.step},
                                                   {"micro_batches", report.micro_batches},
                                                   {"grain_seconds_mean", report.grain_seconds_mean},
                                                   {"grain_seconds_max", report.grain_seconds_max},
                                                   {"data_wait_seconds", report.data_wait_seconds},
                                                   {"exchange_seconds", linked_.totals().seconds},
                                                   {"exchange_bytes", linked_.totals().sent_bytes},
                                                   {"way_of_sums", way_of_sums_},
                                                   {"peak_bytes", peak_bytes()}}}));
}

// Range by range, until the leader has no more.
void TeamWorker::validate() {
    Packet question{.words = {{"roster", membership_.roster().number}}};
    while (true) {
        const Packet answer = decoded(link_.ask("validation", encoded(question)));
        if (!answer.words.contains("first")) {
            if (answer.words.value("wait", false)) {
                question = {.words = {{"roster", membership_.roster().number}}};
                continue;
            }
            return;
        }
        const std::vector<float> losses = engine_.model->losses(batch_of(answer), engine_.weights_to_read());
        question = {.words = {{"roster", membership_.roster().number}, {"first", answer.words.at("first")}},
                    .bytes = {reinterpret_cast<const char*>(losses.data()), losses.size() * sizeof(float)}};
    }
}

}  // namespace

WorkEnd work_for_team(Link& link, const TeamWorkerOptions& options) {
    return TeamWorker(link, options).run();
}

}  // namespace accrue
