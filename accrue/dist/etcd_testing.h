#pragma once

#include <string>

#include <sys/types.h>

#include "accrue/base/temporary_folder.h"

namespace accrue::testing {

// Is the program there? Tests that need it are skipped where it is not.
[[nodiscard]] bool has_etcd();

// An etcd of one member, alone with what it keeps.
class EtcdProcess {
public:
    // Waits until it answers.
    EtcdProcess();
    ~EtcdProcess();
    EtcdProcess(const EtcdProcess&) = delete;
    EtcdProcess& operator=(const EtcdProcess&) = delete;

    [[nodiscard]] const std::string& url() const { return url_; }
    // Silent, and back.
    void freeze() const;
    void thaw() const;

private:
    void start();
    [[nodiscard]] bool answers() const;
    void kill();

    TemporaryFolder folder_;
    std::string url_;
    pid_t id_ = -1;
};

}  // namespace accrue::testing
