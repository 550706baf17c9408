// NCCL as the program uses it, between processes of this machine that each have a simulated GPU: the first member adds up what the
// others send it over a socket, in a thread, so that nobody who calls is kept waiting. A member that dies is not noticed here:
// then nothing comes any more, as the worst of networks does it.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/simulated_gpu/runtime.h"
#include <nccl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct ncclComm {
    int rank = 0;
    int size = 1;
    std::atomic<bool> is_aborted = false;
    std::atomic<ncclResult_t> state = ncclInProgress;
    std::vector<int> peers = {};  // sockets: of the first member all others, of the others the first
    std::vector<std::thread> threads = {};
};

namespace accrue::simulated {
namespace {

// Where the members of a communicator meet; the first one listens before it tells anybody.
struct Meeting {
    int listener = -1;
    char name[64] = {};
};

sockaddr_un address_of(const char* name) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::strncpy(address.sun_path + 1, name, sizeof(address.sun_path) - 2);
    return address;
}

// False if it was aborted.
bool wait_until(const ncclComm& communicator, int socket, short what) {
    while (!communicator.is_aborted) {
        pollfd one{.fd = socket, .events = what, .revents = 0};
        if (poll(&one, 1, 10) > 0 && (one.revents & what) != 0) {
            return true;
        }
        if ((one.revents & (POLLERR | POLLHUP)) != 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
    return false;
}

bool send_all(const ncclComm& communicator, int socket, const void* bytes, size_t size) {
    const char* next = static_cast<const char*>(bytes);
    while (size > 0 && wait_until(communicator, socket, POLLOUT)) {
        const ssize_t sent = send(socket, next, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        next += std::max<ssize_t>(sent, 0);
        size -= static_cast<size_t>(std::max<ssize_t>(sent, 0));
    }
    return size == 0;
}

bool receive_all(const ncclComm& communicator, int socket, void* bytes, size_t size) {
    char* next = static_cast<char*>(bytes);
    while (size > 0 && wait_until(communicator, socket, POLLIN)) {
        const ssize_t came = recv(socket, next, size, MSG_DONTWAIT);
        if (came == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));  // it is gone, and nobody says so
        }
        next += std::max<ssize_t>(came, 0);
        size -= static_cast<size_t>(std::max<ssize_t>(came, 0));
    }
    return size == 0;
}

void connect_members(ncclComm& communicator, const Meeting& meeting) {
    if (communicator.rank == 0) {
        while (static_cast<int>(communicator.peers.size()) < communicator.size - 1) {
            if (!wait_until(communicator, meeting.listener, POLLIN)) {
                return;
            }
            communicator.peers.push_back(accept(meeting.listener, nullptr, nullptr));
        }
        close(meeting.listener);
    } else {
        const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
        const sockaddr_un address = address_of(meeting.name);
        communicator.peers.push_back(socket);
        if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            communicator.state = ncclSystemError;
            return;
        }
    }
    communicator.state = ncclSuccess;
}

// One bit, once in the life of a process: damage on the way, which somebody must notice.
void damage(uint64_t& value) {
    static std::atomic<bool> is_done = properties().nccl_damage == 0;
    if (!is_done.exchange(true)) {
        value ^= uint64_t{1} << 17;
    }
}

void add_up(ncclComm& communicator, const uint64_t* from, uint64_t* to, size_t count) {
    std::vector<uint64_t> total(from, from + count);
    const size_t bytes = count * sizeof(uint64_t);
    bool is_there = true;
    if (communicator.rank == 0) {
        std::vector<uint64_t> other(count);
        for (const int peer : communicator.peers) {
            is_there = is_there && receive_all(communicator, peer, other.data(), bytes);
            for (size_t i = 0; i < count; ++i) {
                total[i] += other[i];
            }
        }
        for (const int peer : communicator.peers) {
            is_there = is_there && send_all(communicator, peer, total.data(), bytes);
        }
        damage(total.front());
    } else {
        is_there = send_all(communicator, communicator.peers.front(), from, bytes) &&
                   receive_all(communicator, communicator.peers.front(), total.data(), bytes);
    }
    if (is_there) {
        std::memcpy(to, total.data(), bytes);
    }
}

}  // namespace
}  // namespace accrue::simulated

using namespace accrue::simulated;

ncclResult_t ncclGetVersion(int* version) {
    *version = properties().nccl == 0 ? 20000 : NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    static std::atomic<int> meetings = 0;
    Meeting meeting{.listener = ::socket(AF_UNIX, SOCK_STREAM, 0)};
    std::snprintf(meeting.name, sizeof meeting.name, "simulated-nccl-%d-%d", getpid(), ++meetings);
    const sockaddr_un address = address_of(meeting.name);
    const bool listens = bind(meeting.listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                         listen(meeting.listener, 64) == 0;
    static_assert(sizeof meeting <= sizeof *id);
    *id = {};
    std::memcpy(id, &meeting, sizeof meeting);
    return listens ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
    if (config->blocking != 0) {
        return ncclInvalidArgument;
    }
    Meeting meeting;
    std::memcpy(&meeting, &id, sizeof meeting);
    *communicator = new ncclComm{.rank = rank, .size = size};
    (*communicator)->threads.emplace_back([one = *communicator, meeting] { connect_members(*one, meeting); });
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
    *state = communicator->state;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
    communicator->is_aborted = true;
    for (std::thread& thread : communicator->threads) {
        thread.join();
    }
    for (const int peer : communicator->peers) {
        close(peer);
    }
    delete communicator;
    return ncclSuccess;
}

// All that is on the stream is done first; what comes is there when the stream is no longer held.
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream) {
    if (type != ncclUint64 || operation != ncclSum || communicator->state != ncclSuccess) {
        return ncclInvalidUsage;
    }
    cudaStreamSynchronize(stream);
    hold(stream);
    communicator->threads.emplace_back([=] {
        add_up(*communicator, static_cast<const uint64_t*>(from), static_cast<uint64_t*>(to), count);
        release(stream);
    });
    return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
    return result == ncclSystemError ? "unhandled system error" : "another error";
}

const char* ncclGetLastError(ncclComm_t /*communicator*/) {
    return "";
}
