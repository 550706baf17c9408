#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "accrue/dist/exchange.h"

namespace accrue {

// Where this process meets other members: one for all its rosters, because it owns a thread. Connections go to and from this
// address, as one of this machine's interfaces has it. They are neither encrypted nor authenticated, and a stranger who
// connects can end the process: take an address of a network that only the members use. Ignores SIGPIPE in the whole process,
// because Gloo does not keep it away.
class MeshDevice {
public:
    explicit MeshDevice(const std::string& address = "127.0.0.1");
    ~MeshDevice();
    MeshDevice(const MeshDevice&) = delete;
    MeshDevice& operator=(const MeshDevice&) = delete;

    struct Gloo;
    [[nodiscard]] const Gloo& gloo() const { return *gloo_; }

private:
    std::unique_ptr<Gloo> gloo_;
};

// What has just come from another member, before it is used.
struct Arrival {
    enum class Of { contribution, total, state, words };
    Of of = Of::contribution;
    int64_t from_rank = 0;
    int64_t first = 0;  // of elements, or of bytes of state
    std::span<std::byte> bytes;
};

struct MeshOptions {
    int64_t term = 0;    // of the coordinator
    int64_t roster = 0;  // each connects only once
    int64_t rank = 0;
    int64_t size = 1;
    std::chrono::milliseconds connect_limit{5000};     // for each of the others to come
    std::chrono::milliseconds operation_limit{30000};  // for each of them to be silent
    std::function<void(const Arrival&)> disturb = {};  // for tests: may change what came
};

// Connects a roster's members by TCP. All of them call it at about the same time; throws RosterChanged when one does not come.
// An exchange takes 8 bytes an element, and up to 16 MiB; they are kept for the next. Starts one thread, which notices at once
// when a member is gone. With one member there is no thread and no network. Neither mesh nor device may be used by two threads
// at a time, except for give_up(), and that several meshes may share a device, which must outlive them.
[[nodiscard]] std::unique_ptr<Mesh> connect_mesh(const MeshDevice& device, KeyStore& store, const MeshOptions& options);

}  // namespace accrue
