#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "accrue/dist/etcd.h"
#include "accrue/dist/heartbeat.h"

namespace accrue {

// Another program may lead the run by now: nothing of it may be written any more.
class LeadershipLost final : public Error {
public:
    using Error::Error;
};

// One of several programs leads a run: the one whose name stands in etcd, under a lease that ends when it is silent. Each that
// comes to lead has a higher term than all before it.
//
// Rules:
// - A term is in etcd before anything is done under it, put there together with the leader's name, if nobody's stood there.
// - What commit() has put counts, and only a leader puts: its name must still be the one that won. A leader that was cut off, or
//   slept, so finds out before it writes anything of that step.
class Leadership {
public:
    struct Options {
        std::string run;        // the name that all have for it
        std::string candidate;  // who this is: of this process alone
        int64_t lease_seconds = 10;
    };
    // What is told while another leads: its name.
    using Told = std::function<void(const std::string& leader)>;

    // Waits until it leads; nothing if gives_up(), which is asked about every second. The cluster must outlive it.
    [[nodiscard]] static std::unique_ptr<Leadership> win(Etcd& etcd, const Options& options,
                                                         const std::function<bool()>& gives_up, const Told& told);
    // Another may lead at once.
    ~Leadership();
    Leadership(const Leadership&) = delete;
    Leadership& operator=(const Leadership&) = delete;

    [[nodiscard]] int64_t term() const { return won_.term; }
    // Its number in etcd.
    [[nodiscard]] int64_t lease() const { return won_.lease; }
    // What is kept of a run: its step that counts, under the term of whoever put it. Throws LeadershipLost where this one does not lead
    // any more, or may not, because no etcd answers.
    void commit(int64_t step) { put("step", step); }
    // The step that counts; -1 = none yet.
    [[nodiscard]] int64_t committed_step() const;
    // The same of a run that has come to its end, and its last step; 0 = none has yet.
    void note_end(int64_t step) { put("ended", step); }
    [[nodiscard]] int64_t ended_after() const;
    // Throws LeadershipLost where this one has found out that it does not lead any more, or has not heard of its lease until it must
    // have ended.
    void require() const;

private:
    struct Won {
        int64_t term = 0;
        int64_t lease = 0;
        int64_t revision = 0;  // at which its name was put there
        double asked_at = 0;   // for the lease
    };
    Leadership(Etcd& etcd, const Options& options, const Won& won);
    [[nodiscard]] static std::unique_ptr<Leadership> try_to_win(Etcd& etcd, const Options& options);
    void renew();
    void put(const char* what, int64_t number);
    void note_loss(const std::string& why);

    Etcd& etcd_;
    const Options options_;
    const Won won_;
    std::atomic<double> valid_until_;  // as far as this one knows
    mutable std::mutex mutex_;
    std::string loss_;     // empty = it leads
    Heartbeat heartbeat_;  // after all that it uses
};

}  // namespace accrue
