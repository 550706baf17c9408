#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/dist/simulation/world.h"

namespace accrue::simulation {

// What a worker may do wrong.
enum class Mistake {
    none,
    keeps_lost_sums,  // which count no longer
    applies_unheard,  // the sums, before all have voted
    keeps_replay,     // in a roster whose other members do not know of it
    keeps_task,       // does not ask for it again in a new roster
    renumbers_calls,  // that it repeats
    differs,          // says something else of what it has done
};

// A worker as a true one is: it does one thing at a time, and whatever throws RosterChanged leads back to the meeting.
class SimulatedWorker {
public:
    struct Nature {
        std::string name;
        int64_t most_grains = 1;  // in a micro-batch
        int64_t turns_a_batch = 1;
        Mistake mistake = Mistake::none;
    };
    SimulatedWorker(World& world, Nature nature) : world_(world), nature_(std::move(nature)) {}

    void act();
    // A sign of life, about every half second.
    void beat();
    // It is no more there for the others in the mesh.
    void disconnect();
    void wish_to_stop() { wishes_to_stop_ = true; }
    // It does nothing at all.
    void sleep(double seconds) { sleeps_until_ = world_.now() + seconds; }
    [[nodiscard]] bool is_awake() const { return world_.now() >= sleeps_until_; }
    // Nothing gets from it to the coordinator.
    void cut_off(double seconds) { cut_off_until_ = world_.now() + seconds; }
    void recover() { sleeps_until_ = cut_off_until_ = 0; }

    [[nodiscard]] const std::string& name() const { return nature_.name; }
    [[nodiscard]] const State& state() const { return state_; }

private:
    enum class Stage { meet, synchronize, take_task, begin, lease, compute, agree, exchange, vote, report };

    template <class Call>
    [[nodiscard]] auto ask(const Call& call) {
        return world_.now() < cut_off_until_ ? std::nullopt : world_.ask(call);
    }
    void go_to(Stage stage);
    [[nodiscard]] CallPlace place();
    [[nodiscard]] size_t rank() const { return static_cast<size_t>(roster_.rank); }
    void meet();
    void synchronize();
    void take_task();
    void go_on_with_task();
    void begin();
    void lease();
    void compute();
    void agree();
    void exchange();
    void vote();
    void apply();
    void gather();
    void report();
    void lose_roster();
    // All members' contributions to the next operation; none as long as one of them is missing.
    [[nodiscard]] const Operation* together(const Contribution& mine);
    void check_exchange(const Operation& exchange) const;
    void check_verdict(const Verdict& verdict) const;

    World& world_;
    Nature nature_;
    bool wishes_to_stop_ = false;
    double sleeps_until_ = 0;
    double cut_off_until_ = 0;
    double next_beat_ = 0;
    State state_;
    std::optional<Sums> open_;  // the window that is open

    Stage stage_ = Stage::meet;
    int64_t call_ = 0;
    double stage_since_ = 0;
    int64_t turns_ = 0;  // in this stage

    Roster roster_;
    std::shared_ptr<SimulatedMesh> mesh_;
    size_t next_operation_ = 0;
    Task task_;
    std::vector<int64_t> batch_;
    bool stops_ = false;  // says so when it comes to agree
    GrainLedger everyone_;
    bool is_left_open_ = false;
    int64_t attempt_ = 0;
    const Operation* exchanged_ = nullptr;
    std::string report_;
};

}  // namespace accrue::simulation
