#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "accrue/dist/gloo_mesh.h"

namespace accrue {

// A message on its way: its bytes must stay where they are until it was waited for or is destroyed. Must not outlive the wire.
class Message {
public:
    virtual ~Message() = default;
    // Until it was sent or has come. Throws RosterChanged if any member is gone, or this one silent for longer than the limit.
    virtual void wait() = 0;
};

// For one that may have been waited for already, or never sent.
inline void wait_for(std::unique_ptr<Message>& message) {
    if (message) {
        message->wait();
        message.reset();
    }
}

// Messages between the members of a roster. Those from one member to another come in the order in which they were sent; whoever
// receives one must expect its size. The only place that knows Gloo, and what it does when somebody fails.
class GlooWire {
public:
    GlooWire(const MeshDevice& device, KeyStore& store, const MeshOptions& options);
    // Takes leave of the others, who go on with what they have begun, unless it was closed. To a member that it has never heard
    // of, leaving looks like a failure.
    ~GlooWire();
    GlooWire(const GlooWire&) = delete;
    GlooWire& operator=(const GlooWire&) = delete;

    [[nodiscard]] std::unique_ptr<Message> send(int64_t to_rank, std::span<const std::byte> bytes);
    [[nodiscard]] std::unique_ptr<Message> receive(int64_t from_rank, std::span<std::byte> bytes);
    // For how long a member may be silent: at first, as long as connecting may take.
    void set_limit(std::chrono::milliseconds limit) { limit_ = limit; }
    // Throws RosterChanged if a member is known to be gone.
    void require_all();
    // From another thread: whoever waits here for a message does so no longer.
    void give_up(const std::string& why) noexcept;
    // After a failure: cuts all connections, so that the others notice at once. Nothing works after it.
    void close() noexcept;
    [[nodiscard]] int64_t sent_bytes() const { return sent_bytes_; }

private:
    class Connections;
    class Watch;
    class GlooMessage;

    std::unique_ptr<Connections> connections_;  // none if there are no others
    std::unique_ptr<Watch> watch_;
    std::chrono::milliseconds limit_;
    int64_t sent_bytes_ = 0;
    bool is_closed_ = false;
};

}  // namespace accrue
