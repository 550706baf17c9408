#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "accrue/dist/leadership.h"
#include "accrue/train/step.h"

namespace accrue {

// One of several accrue serve with the same job and one run folder: it stands by until it leads, which one of them does at a time.
class Standby {
public:
    struct Options {
        EtcdOptions etcd;
        std::string run;       // the name that all have for it
        std::string settings;  // of the job, the same for all
        int64_t lease_seconds = 10;
    };
    explicit Standby(const Options& options) : options_(options), etcd_(options.etcd) {}

    // Waits until this one leads; false if `stop` was set before. `told` is given lines for people. An Error if another run has
    // the same name.
    [[nodiscard]] bool lead(const StopFlag& stop, const std::function<void(const std::string& line)>& told);
    // While it leads.
    [[nodiscard]] Leadership& leadership() { return *leadership_; }

private:
    Options options_;
    Etcd etcd_;
    std::unique_ptr<Leadership> leadership_;
};

}  // namespace accrue
