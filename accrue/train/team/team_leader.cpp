#include "accrue/train/team/team_leader.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "accrue/base/bytes.h"
#include "accrue/base/clock.h"
#include "accrue/train/memory_budget.h"
#include "accrue/train/run_facts.h"
#include "accrue/train/settings_difference.h"
#include "accrue/train/team/packet.h"
#include "accrue/train/team/serve_state.h"
#include "accrue/train/team/state_sharing.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kLook = std::chrono::milliseconds(50);

const StopFlag kNeverStop{false};

}  // namespace

WorkerShare TeamLeader::share_of_worker(const Settings& settings, const ModelSpec& model) {
    if (const DeviceName device = device_of(settings.compute).name; device.kind == DeviceKind::cuda) {
        if (!gpu_share_) {
            require_host_room(model, options_.workers);
            const MemoryBound share = share_of_gpus(settings, options_.workers);
            gpu_share_ = {.bytes = share.bytes,
                          .threads = options_.threads_each,
                          .reason = share.reason,
                          .exchanges_on_gpu = options_.workers > 1 && can_exchange_on_gpus(settings, options_.workers)};
            gpu_places_.emplace(gpus_of_workers(device));
        }
        return *gpu_share_;
    }
    const MemoryBound all = budget_of(settings, memory_of_machine());
    const int64_t share = all.bytes / options_.workers;
    return {.bytes = share,
            .threads = options_.threads_each,
            .sharing = sharing_of(settings),
            .reason = cat(all.reason, ", of which each of ", options_.workers, " workers has ", format_bytes(share))};
}

Settings TeamLeader::settings_of_worker(Settings settings, const ModelSpec& model) {
    if (options_.machines == Machines::their_own) {
        return settings;
    }
    return settings_within(share_of_worker(settings, model), settings, model);
}

StateSharing TeamLeader::sharing_of(const Settings& settings) const {
    return accrue::sharing_of(settings, options_.workers);
}

void TeamLeader::begin(const Run& run, Engine& engine) {
    run_.emplace(run);
    auto& kernels = dynamic_cast<DistantKernels&>(engine.kernels);
    kernels.serve(engine);
    kernels.before_use(
        {.open = [this] { return open_session(); }, .failed = [this](int64_t session) { give_up(session); }});
    workforce_.start(*this);
}

std::unique_ptr<Kernels> TeamLeader::make_kernels(Arena& arena) {
    return std::make_unique<DistantKernels>(arena, state_);
}

// ---- what workers ask

std::string TeamLeader::job(const std::string& worker) {
    const RunInputs& inputs = run_->inputs;
    const StateSharing sharing = sharing_of(inputs.settings);
    Settings settings = settings_of_worker(inputs.settings, *inputs.model);
    Settings to_plan = settings_of_worker(settings_to_plan(inputs), *inputs.model);
    if (gpu_places_) {
        const std::lock_guard lock(mutex_);
        const DeviceName device(DeviceKind::cuda, gpu_places_->place_of(worker, desk_.heard()));
        settings.compute.device = device;
        to_plan.compute.device = device;
    }
    return encoded({.words = {{"term", desk_.term()},
                              {"run", run_->name},
                              {"plans_itself", options_.machines == Machines::their_own},
                              {"exchanges_on_gpu", gpu_share_ && gpu_share_->exchanges_on_gpu},
                              {"ranges", sharing.ranges},
                              {"copies", sharing.copies},
                              {"settings", to_toml(settings)},
                              {"settings_to_plan", to_toml(to_plan)},
                              {"longest_sample", inputs.longest_sample()},
                              {"config_json", inputs.model->config_json()}}});
}

// A worker that only its own machine can reach, and others that are elsewhere, would never meet.
void TeamLeader::welcome(const std::string& worker, const std::string& address) {
    const auto is_own = [](const std::string& each) { return each.starts_with("127.") || each == "::1"; };
    const std::lock_guard lock(mutex_);
    for (const std::string& member : desk_.heard()) {
        const auto other = addresses_.find(member);
        if (member != worker && other != addresses_.end() && is_own(other->second) != is_own(address)) {
            throw Error(cat("the others meet worker ", worker, " at ", address, " and worker ", member, " at ",
                            other->second, ", of which ", is_own(address) ? address : other->second,
                            " leads nobody from one machine to another. Let workers on the coordinator's machine join "
                            "by the address that all others use, or say it with --address."));
        }
    }
    addresses_[worker] = address;
}

void TeamLeader::require_same_settings(const std::string& worker, const std::string& asked) const {
    const std::string difference =
        asked.empty() || options_.asked.empty() ? "" : difference_of_settings(options_.asked, asked);
    if (!difference.empty()) {
        throw Error(cat("worker ", worker, " was started with other settings than the run's leader: ", difference,
                        ". Start all of them with the same settings."));
    }
}

void TeamLeader::check_numerics(const std::string& worker, const std::string& record) {
    const Numerics theirs = numerics_record_of(record).now;
    if (theirs == run_->numerics) {
        return;
    }
    if (!run_->inputs.settings.workers.mixed) {
        throw Error(cat("worker ", worker, " has other bits than the run's leader: ", text_of(theirs),
                        ", but the run has ", text_of(run_->numerics),
                        ". All workers need the same program and the same instruction set: set "
                        "compute.instruction_set to one that every machine has, and start the run anew. Or set "
                        "workers.mixed = true, and give up that the weights do not depend on who computed what."));
    }
    const std::lock_guard lock(mutex_);
    if (std::ranges::none_of(guests_, [&](const NumericsRecord::Guest& known) { return known.numerics == theirs; })) {
        guests_.push_back({.step = measured_step_, .worker = worker, .numerics = theirs});
    }
}

std::vector<NumericsRecord::Guest> TeamLeader::guests() const {
    const std::lock_guard lock(mutex_);
    return guests_;
}

// What a worker asks for is looked at: samples that are not there would be memory that is not.
void TeamLeader::require_in_data(const Window& window) const {
    const int64_t samples = run_->inputs.train->size();
    if (window.first.place > samples - window.samples) {
        throw Error(cat("a worker asks for samples ", window.first.place, " to ",
                        window.first.place + window.samples - 1, " of an epoch of ", samples, "."));
    }
}

std::string TeamLeader::answer(const std::string& worker, const std::string& subject, const std::string& question) {
    if (subject == "job") {
        const Packet words = decoded(question);
        require_same_settings(worker, words.words.value("asked", std::string()));
        welcome(worker, words.words.value("address", std::string()));
        return job(worker);
    }
    if (subject == "numerics") {
        check_numerics(worker, question);
        return "";
    }
    const Packet packet = decoded(question);
    if (subject == "state") {
        return encoded(state_.next(worker, packet));
    }
    const std::lock_guard lock(mutex_);
    if (subject == "batch") {
        const auto [window, grains] = batch_question_of(packet);
        require_in_data(window);
        return encoded(packet_of(run_->loader.load(window, grains)));
    }
    if (subject == "tokens") {
        const Window window = window_of(packet.words.at("window"));
        require_in_data(window);
        return encoded({.words = {{"tokens", run_->loader.counted_tokens(window)}}});
    }
    if (subject == "window") {
        const DataPosition from = position_of(packet.words.at("from"));
        require_in_data({.first = from, .samples = 1});
        return encoded(
            {.words = json_of(run_->loader.window_from(from, window_size_of(run_->inputs.settings.window)))});
    }
    if (subject == "measured") {
        if (number_of(packet, "step") == measured_step_) {
            measured_[worker] = packet.words;
        }
        return "";
    }
    if (subject == "validation") {
        return encoded(next_range(packet));
    }
    throw Error(cat("worker ", worker, " asks for \"", subject, "\", which this program does not know."));
}

// ---- who is there

void TeamLeader::look_after() {
    const std::lock_guard lock(look_mutex_);  // whoever reads the state waits, and looks, too
    if (!fault_.empty()) {
        throw Error(fault_);
    }
    if (run_->stop && desk_.standing().present == 0) {
        stop_without_workers();
    }
    try {
        for (const auto& all : {workforce_.look_after(), desk_.take_news()}) {
            for (const std::string& news : all) {
                run_->note(news);
            }
        }
    } catch (const Error& error) {
        fault_ = error.what();  // is said once, but several threads may wait for workers, all of which end now
        throw;
    }
}

// Those who are there, or about to come, would look for a leader for minutes. Those of this machine end with it.
void TeamLeader::stop_without_workers() {
    if (options_.machines == Machines::their_own) {
        desk_.wait_for_no_more();
        tell_end(How::stopped);
    }
    throw StoppedWithoutWorkers();
}

CoordinatorDesk::Standing TeamLeader::formed_roster(Waiting waiting, int64_t least_members) {
    while (true) {
        look_after();
        auto standing = desk_.standing();
        const int64_t needed = standing.roster == 0 ? std::max(options_.workers, least_members) : least_members;
        if (waiting == Waiting::to_begin && run_->stop && standing.present < needed) {
            stop_without_workers();
        }
        if (standing.is_formed && std::ssize(standing.members) >= least_members) {
            return standing;
        }
        std::this_thread::sleep_for(kLook);
    }
}

std::optional<std::string> TeamLeader::answer_of(int64_t task, Patience patience, const StopFlag& stop) {
    bool has_asked = false;
    const int64_t roster = desk_.standing().roster;
    return desk_.task_answer(task, [&] {
        look_after();
        if (stop && !has_asked) {
            desk_.ask_to_stop();
            has_asked = true;
        }
        const auto standing = desk_.standing();
        return patience == Patience::one_roster && (!standing.is_formed || standing.roster != roster);
    });
}

// ---- the state

void TeamLeader::begin_session(const CoordinatorDesk::Standing& roster) {
    state_.begin(roster.members.front(), [this, number = roster.roster] {
        look_after();
        const auto standing = desk_.standing();
        if (!standing.is_formed || standing.roster != number) {
            throw RosterChanged("the worker that served the run's state is gone");
        }
    });
}

int64_t TeamLeader::open_session() {
    const std::lock_guard lock(session_mutex_);
    if (!state_.is_open()) {
        const auto roster = formed_roster(Waiting::to_go_on);
        if (std::ranges::all_of(roster.steps, [](int64_t step) { return step < 0; }) &&
            roster.roster != filled_roster_) {
            throw StateLost();
        }
        begin_session(roster);
        session_task_ = set_task({{"do", "serve"}});
    }
    return state_.session();
}

// All members have the same state, so that another one may go on.
void TeamLeader::give_up(int64_t session) {
    const std::lock_guard lock(session_mutex_);
    if (fills_) {
        throw RosterChanged("a worker is gone while it was given the state");
    }
    state_.abandon(session);
}

void TeamLeader::close_session() {
    const std::lock_guard lock(session_mutex_);
    while (state_.is_open()) {
        try {
            state_.end();
            (void)answer_of(session_task_, Patience::one_roster, kNeverStop);
        } catch (const RosterChanged&) {
            state_.abandon(state_.session());
        }
    }
}

int64_t TeamLeader::least_members() const {
    return sharing_of(run_->inputs.settings).least_members();
}

bool TeamLeader::is_state_lost() {
    close_session();
    (void)set_task({{"do", "wait"}});
    const auto roster = formed_roster(Waiting::to_begin, least_members());
    return std::ranges::all_of(roster.steps, [](int64_t step) { return step < 0; });
}

void TeamLeader::fill(Engine& engine, const std::function<void()>& load) {
    close_session();
    fills_ = true;
    while (true) {
        (void)set_task({{"do", "wait"}});  // whoever comes with a state must not begin the step that was the last task
        const auto roster = formed_roster(Waiting::to_begin, least_members());
        try {
            begin_session(roster);
            const int64_t task = set_task({{"do", "fill"}});
            (void)state_.tell({.words = {{"do", "begin"}}});
            load();
            engine.state.open.reset();  // its grains are computed again: whose they are, nobody knows any more
            (void)state_.tell({.words = {{"do", "take_facts"}, {"facts", facts_json(engine)}}});
            state_.end();
            const auto said = answer_of(task, Patience::one_roster, kNeverStop);
            if (said && *said != kNoState) {
                filled_roster_ = desk_.roster_of_answer();  // perhaps a later one than it began in
                fills_ = false;
                return;
            }
        } catch (const RosterChanged&) {
            state_.abandon(state_.session());
        }
    }
}

// ---- a step

std::optional<StepReport> TeamLeader::step(Engine& engine, const Window& window, const StopFlag& stop) {
    const auto start = Clock::now();
    close_session();
    {
        const std::lock_guard lock(mutex_);
        measured_.clear();
        measured_step_ = engine.state.step + 1;
    }
    const int64_t task = set_task({{"do", "step"},
                                   {"step", engine.state.step + 1},
                                   {"window", json_of(window)},
                                   {"is_mixed", run_->inputs.settings.workers.mixed}});
    const std::string said = answer_of(task, Patience::any_roster, stop).value();
    if (said == kNoState) {
        throw StateLost();
    }
    if (said == kLeftOpen) {
        read_open_window(engine);
        return std::nullopt;
    }
    const Json words = Json::parse(said);
    restore_facts(engine, words.at("facts"), "a worker");
    StepReport report = report_of(words.at("report"));
    report.seconds = seconds_since(start);
    add_measured(report);
    return report;
}

// So that it can be saved.
void TeamLeader::read_open_window(Engine& engine) {
    Packet told;
    for (bool is_told = false; !is_told;) {
        const int64_t session = open_session();
        try {
            told = state_.tell({.words = {{"do", "tell_facts"}}});
            is_told = true;
        } catch (const RosterChanged&) {
            give_up(session);  // with it the open window is lost, whose grains are then computed again
        }
    }
    const Json& facts = told.words.at("facts");
    restore_facts(engine, facts, "a worker");
    if (!facts.at("window").is_null()) {
        WindowRecord record = window_record_of(facts.at("window").dump());
        engine.sum.restore(GrainLedger::from_bytes(std::as_bytes(std::span(told.bytes)), record.window.grains(),
                                                   std::ssize(engine.sum.tensors())),
                           record.units, record.rounding_seed, record.loss_scale);
        engine.state.open = std::move(record);
    }
}

void TeamLeader::add_measured(StepReport& report) {
    const auto standing = desk_.standing();
    TeamFacts team{.workers = std::ssize(standing.members),
                   .lost_workers = standing.counts.lost_workers + workforce_.killed(),
                   .grains_recomputed = standing.counts.recomputed_grains};
    const std::lock_guard lock(mutex_);
    report.micro_batches = std::max<int64_t>(1, report.micro_batches);  // whoever missed the verdict has not said
    double mean = 0;
    for (const auto& [worker, told] : measured_) {
        mean += told.at("grain_seconds_mean").get<double>();
        report.grain_seconds_max = std::max<double>(report.grain_seconds_max, told.at("grain_seconds_max"));
        report.data_wait_seconds += told.at("data_wait_seconds").get<double>();
        auto& [seconds, bytes] = exchanged_before_[worker];
        team.exchange_seconds = std::max(team.exchange_seconds, told.at("exchange_seconds").get<double>() - seconds);
        team.exchange_bytes += told.at("exchange_bytes").get<int64_t>() - bytes;
        seconds = told.at("exchange_seconds");
        bytes = told.at("exchange_bytes");
        team.peak_bytes = std::max<int64_t>(team.peak_bytes, told.at("peak_bytes"));
        report.micro_batches = std::max<int64_t>(report.micro_batches, told.at("micro_batches"));
        if (const std::string way = told.at("way_of_sums"); !way.empty() && way != way_of_sums_) {
            way_of_sums_ = way;
            run_->note(way);
        }
    }
    report.grain_seconds_mean = measured_.empty() ? 0 : mean / static_cast<double>(measured_.size());
    report.team = team;
}

void TeamLeader::end(How how) {
    close_session();
    tell_end(how);
}

void TeamLeader::tell_end(How how) {
    (void)set_task({{"do", "end"}, {"is_done", how == How::done}});
    workforce_.end();
}

}  // namespace accrue
