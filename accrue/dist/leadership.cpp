#include "accrue/dist/leadership.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>
#include <thread>

namespace accrue {
namespace {

std::string key_of(const std::string& run, const char* what) {
    return cat("accrue/", run, "/", what);
}

// It goes on while a machine sleeps: a lease does, too.
double seconds_awake_or_not() {
    timespec now = {};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int64_t number_of(const std::optional<Etcd::Value>& value, int64_t otherwise) {
    if (!value) {
        return otherwise;
    }
    try {
        return std::stoll(value->text);
    } catch (const std::exception&) {
        throw Error(cat("etcd keeps '", value->text.substr(0, 40),
                        "' where a number of this run should be: another program uses the same keys. Give the run "
                        "another folder."));
    }
}

}  // namespace

std::unique_ptr<Leadership> Leadership::win(Etcd& etcd, const Options& options, const std::function<bool()>& gives_up,
                                            const Told& told) {
    while (!gives_up()) {
        if (auto won = try_to_win(etcd, options)) {
            return won;
        }
        if (const auto leader = etcd.get(key_of(options.run, "leader"))) {
            told(leader->text);
        }
        std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    return nullptr;
}

std::unique_ptr<Leadership> Leadership::try_to_win(Etcd& etcd, const Options& options) {
    const std::string leader_key = key_of(options.run, "leader");
    const std::string term_key = key_of(options.run, "term");
    if (etcd.get(leader_key)) {
        return nullptr;
    }
    const auto last_term = etcd.get(term_key);
    const double asked_at = seconds_awake_or_not();
    Won won = {
        .term = number_of(last_term, 0) + 1, .lease = etcd.begin_lease(options.lease_seconds), .asked_at = asked_at};
    // Whatever was answered, what stands there tells: an answer may be lost.
    const bool is_told = etcd.put_if(
        {{.key = leader_key},
         {.key = term_key, .of = Etcd::Condition::Of::change, .revision = last_term ? last_term->changed_at : 0}},
        {{.key = leader_key, .text = options.candidate, .lease = won.lease},
         {.key = term_key, .text = std::to_string(won.term)}});
    const auto leader = etcd.get(leader_key);
    const auto term = etcd.get(term_key);
    const bool has_won = leader && term && leader->text == options.candidate &&
                         leader->created_at == term->changed_at && number_of(term, 0) == won.term;
    if (!has_won) {
        etcd.end_lease(won.lease);
        if (is_told) {
            throw Error("etcd has lost what it confirmed: its keys were removed by somebody else.");
        }
        return nullptr;
    }
    won.revision = leader->created_at;
    return std::unique_ptr<Leadership>(new Leadership(etcd, options, won));
}

Leadership::Leadership(Etcd& etcd, const Options& options, const Won& won)
    : etcd_(etcd),
      options_(options),
      won_(won),
      valid_until_(won.asked_at + static_cast<double>(options.lease_seconds)),
      heartbeat_([this] {
          renew();
          return std::chrono::milliseconds(1000 * options_.lease_seconds / 4);
      }) {}

Leadership::~Leadership() {
    heartbeat_.end();
    try {
        etcd_.end_lease(won_.lease);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it ends by itself
    }
}

// It holds for so long from when it was asked for, not from when the answer came.
void Leadership::renew() {
    const double asked_at = seconds_awake_or_not();
    if (etcd_.renew_lease(won_.lease)) {
        valid_until_ = asked_at + static_cast<double>(options_.lease_seconds);
    } else {
        note_loss("its lease in etcd has ended, because nothing was heard of it for too long");
    }
}

void Leadership::put(const char* what, int64_t number) {
    require();
    try {
        if (!etcd_.put_if({{.key = key_of(options_.run, "leader"), .revision = won_.revision}},
                          {{.key = key_of(options_.run, what), .text = std::to_string(number)}})) {
            note_loss("another one has taken over");
        }
    } catch (const EtcdSilent& silent) {
        note_loss(silent.what());
    }
    require();
}

int64_t Leadership::committed_step() const {
    return number_of(etcd_.get(key_of(options_.run, "step")), -1);
}

int64_t Leadership::ended_after() const {
    return number_of(etcd_.get(key_of(options_.run, "ended")), 0);
}

void Leadership::require() const {
    const std::lock_guard lock(mutex_);
    std::string why = loss_;
    if (why.empty() && seconds_awake_or_not() > valid_until_) {
        why = cat("etcd was not heard of for the ", options_.lease_seconds, " seconds of its lease");
    }
    if (!why.empty()) {
        throw LeadershipLost(cat("this program does not lead the run any more: ", why, "."));
    }
}

void Leadership::note_loss(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (loss_.empty()) {
        loss_ = why;
    }
}

}  // namespace accrue
