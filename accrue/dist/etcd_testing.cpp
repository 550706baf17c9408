#include "accrue/dist/etcd_testing.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/dist/etcd.h"

namespace accrue::testing {
namespace {

// Nobody has it now; somebody may have it soon.
int free_port() {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    const bool is_bound = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                          ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    ::close(socket);
    if (!is_bound) {
        throw Error("no port is free");
    }
    return ntohs(address.sin_port);
}

bool is_over(pid_t id) {
    return ::waitpid(id, nullptr, WNOHANG) == id;
}

}  // namespace

bool has_etcd() {
    return std::system("etcd --version > /dev/null 2>&1") == 0;
}

EtcdProcess::EtcdProcess() {
    constexpr int kTries = 20;
    for (int i = 0; i < kTries; ++i) {
        start();
        while (!is_over(id_)) {
            if (answers()) {
                return;
            }
            std::this_thread::yield();
        }
        id_ = -1;  // somebody else has taken the port
    }
    throw Error(cat("etcd does not start: ", read_text(folder_ / "log")));
}

EtcdProcess::~EtcdProcess() {
    kill();
}

void EtcdProcess::start() {
    url_ = cat("http://127.0.0.1:", free_port());
    const std::string peers = cat("http://127.0.0.1:", free_port());
    const std::string data = (folder_ / "data").string();
    const std::string log = (folder_ / "log").string();
    const std::string cluster = cat("default=", peers);
    id_ = ::fork();
    if (id_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ::dup2(file, STDOUT_FILENO);
        ::dup2(file, STDERR_FILENO);
        ::execlp("etcd", "etcd", "--data-dir", data.c_str(), "--unsafe-no-fsync", "--listen-client-urls", url_.c_str(),
                 "--advertise-client-urls", url_.c_str(), "--listen-peer-urls", peers.c_str(),
                 "--initial-advertise-peer-urls", peers.c_str(), "--initial-cluster", cluster.c_str(), nullptr);
        ::_exit(127);
    }
}

bool EtcdProcess::answers() const {
    try {
        Etcd etcd({.endpoints = url_});
        (void)etcd.get("anything");
        return true;
    } catch (const Error&) {
        return false;
    }
}

void EtcdProcess::freeze() const {
    int status = 0;
    ::kill(id_, SIGSTOP);
    ::waitpid(id_, &status, WUNTRACED);  // until it is
}

void EtcdProcess::thaw() const {
    ::kill(id_, SIGCONT);
}

void EtcdProcess::kill() {
    if (id_ > 0) {
        ::kill(id_, SIGKILL);
        ::waitpid(id_, nullptr, 0);
        id_ = -1;
    }
}

}  // namespace accrue::testing
