#include "accrue/dist/gloo_wire.h"

#include <algorithm>
#include <csignal>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/attr.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "accrue/base/error.h"
#include "accrue/dist/local_address.h"

namespace accrue {
namespace {

using gloo::transport::UnboundBuffer;

// Gloo matches messages between two members by such a number, and in order where there are several of one.
constexpr uint64_t kMessages = 1;
constexpr uint64_t kFarewells = 2;

// Without the place in Gloo's source that it begins with.
std::string reason_of(const std::exception& error) {
    const std::string_view text = error.what();
    const size_t end = text.starts_with('[') ? text.find("] ") : std::string_view::npos;
    return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

// What Gloo throws while it has to do with a member means that this one is gone, or as good as gone.
template <class Action>
auto with_member(int64_t rank, const Action& action) {
    try {
        return action();
    } catch (const RosterChanged&) {
        throw;
    } catch (const std::exception& error) {
        throw RosterChanged(cat("rank ", rank, " is gone or silent: ", reason_of(error)));
    }
}

std::string hex_of(std::span<const char> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const char byte : bytes) {
        text += kDigits[static_cast<unsigned char>(byte) / 16];
        text += kDigits[static_cast<unsigned char>(byte) % 16];
    }
    return text;
}

std::vector<char> bytes_of(std::string_view hex) {
    std::vector<char> bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    }
    return bytes;
}

}  // namespace

struct MeshDevice::Gloo {
    std::shared_ptr<gloo::transport::Device> device;
};

MeshDevice::MeshDevice(const std::string& address) : gloo_(std::make_unique<Gloo>()) {
    require_local_address(address);
    std::signal(SIGPIPE, SIG_IGN);
    try {
        gloo_->device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
    } catch (const std::exception& error) {
        throw Error(cat("cannot meet other workers at '", address, "': ", reason_of(error)));
    }
}

MeshDevice::~MeshDevice() = default;

// Gloo's context, but with an exchange of addresses of our own: one key a member, and text, as any store can keep.
class GlooWire::Connections final : public gloo::Context {
public:
    Connections(const MeshDevice& device, KeyStore& store, const MeshOptions& options)
        : Context(static_cast<int>(options.rank), static_cast<int>(options.size)) {
        device_ = device.gloo().device;
        transportContext_ = device_->createContext(rank, size);
        // Gloo waits five times as long for a connection, and for ever if it is told 0.
        transportContext_->setTimeout(std::max(options.connect_limit / 5, std::chrono::milliseconds(1)));
        const std::string place = cat("mesh/", options.term, "/", options.roster, "/");
        store.set(place + std::to_string(rank), listen());
        for (const int other : others()) {
            const std::string addresses = store.get(place + std::to_string(other), options.connect_limit);
            with_member(other, [&] { transportContext_->getPair(other)->connect(mine_of(addresses, other)); });
        }
    }

    [[nodiscard]] std::vector<int> others() const {
        std::vector<int> ranks;
        for (int other = 0; other < size; ++other) {
            if (other != rank) {
                ranks.push_back(other);
            }
        }
        return ranks;
    }

private:
    // The addresses at which the others may connect, by their rank.
    [[nodiscard]] std::string listen() {
        std::string addresses;
        for (const int other : others()) {
            addresses += hex_of(transportContext_->createPair(other)->address().bytes());
        }
        return addresses;
    }

    // All are of the same length, and another member's begin with rank 0 too and leave out its own.
    [[nodiscard]] std::vector<char> mine_of(std::string_view addresses, int other) const {
        const auto others = static_cast<size_t>(size - 1);
        const size_t length = addresses.size() / others;
        return bytes_of(addresses.substr(static_cast<size_t>(rank > other ? rank - 1 : rank) * length, length));
    }
};

// Notices when a member is gone. To each of them belongs a receive that is answered only when it takes leave, and that fails
// with the connection. Gloo itself tells whoever waits for a message of which nothing has come; in the middle of one, or
// waiting for somebody else, one would wait until the limit.
class GlooWire::Watch {
public:
    explicit Watch(Connections& connections)
        : connections_(connections), farewells_(connections.createUnboundBuffer(nullptr, 0)) {
        for (const int other : connections.others()) {
            with_member(other, [&] { farewells_->recv(other, kFarewells, 0, 0); });
        }
        thread_ = std::thread([this] { run(); });
    }

    ~Watch() {
        farewells_->abortWaitRecv();
        thread_.join();
    }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // Calls `wait`, which waits for this buffer and says whether it came. Ends it if a member is gone.
    template <class Wait>
    void guard(UnboundBuffer& buffer, const Wait& wait) {
        await(&buffer);
        bool came = false;
        try {
            came = wait();
        } catch (...) {
            forget();
            throw;
        }
        forget();
        if (!came) {
            require_all();
        }
    }

    void require_all() {
        const std::lock_guard lock(mutex_);
        throw_if_lost();
    }

    void set_loss(const std::string& what) noexcept {
        const std::lock_guard lock(mutex_);
        if (loss_.empty()) {
            loss_ = what;
        }
        if (awaited_ != nullptr) {
            awaited_->abortWaitRecv();
            awaited_->abortWaitSend();
        }
    }

    void take_leave() noexcept {
        for (const int other : connections_.others()) {
            try {
                farewells_->send(other, kFarewells, 0, 0);
            } catch (const std::exception&) {  // it has left before
            }
        }
    }

private:
    void await(UnboundBuffer* buffer) {
        const std::lock_guard lock(mutex_);
        throw_if_lost();
        awaited_ = buffer;
    }
    void forget() {
        const std::lock_guard lock(mutex_);
        awaited_ = nullptr;
    }
    // With the lock held.
    void throw_if_lost() const {
        if (!loss_.empty()) {
            throw RosterChanged(loss_);
        }
    }

    void run() {
        constexpr auto kForever = std::chrono::hours(24 * 365 * 10);
        try {
            // Whoever takes leave is no loss to those who are still at work.
            while (farewells_->waitRecv(nullptr, kForever)) {
            }
        } catch (const std::exception& error) {
            set_loss(cat("another member is gone: ", reason_of(error)));
        }
    }

    Connections& connections_;
    std::unique_ptr<UnboundBuffer> farewells_;
    std::mutex mutex_;
    UnboundBuffer* awaited_ = nullptr;
    std::string loss_;
    std::thread thread_;
};

class GlooWire::GlooMessage final : public Message {
public:
    enum class Way { out, in };
    GlooMessage(GlooWire& wire, Way way, int64_t rank, const void* bytes, size_t size)
        : wire_(wire),
          way_(way),
          rank_(static_cast<int>(rank)),
          buffer_(wire.connections_->createUnboundBuffer(const_cast<void*>(bytes), size)) {
        wire.watch_->require_all();
        with_member(rank, [&] { way == Way::out ? buffer_->send(rank_, kMessages) : buffer_->recv(rank_, kMessages); });
    }

    void wait() override {
        with_member(rank_, [&] {
            wire_.watch_->guard(*buffer_, [&] {
                return way_ == Way::out ? buffer_->waitSend(wire_.limit_) : buffer_->waitRecv(wire_.limit_);
            });
        });
    }

private:
    GlooWire& wire_;
    Way way_;
    int rank_;
    std::unique_ptr<UnboundBuffer> buffer_;
};

GlooWire::GlooWire(const MeshDevice& device, KeyStore& store, const MeshOptions& options)
    : limit_(options.connect_limit) {
    if (options.size > 1) {
        connections_ = std::make_unique<Connections>(device, store, options);
        watch_ = std::make_unique<Watch>(*connections_);
    }
}

GlooWire::~GlooWire() {
    if (watch_ && !is_closed_) {
        watch_->take_leave();
    }
}

std::unique_ptr<Message> GlooWire::send(int64_t to_rank, std::span<const std::byte> bytes) {
    sent_bytes_ += std::ssize(bytes);
    return std::make_unique<GlooMessage>(*this, GlooMessage::Way::out, to_rank, bytes.data(), bytes.size());
}

std::unique_ptr<Message> GlooWire::receive(int64_t from_rank, std::span<std::byte> bytes) {
    return std::make_unique<GlooMessage>(*this, GlooMessage::Way::in, from_rank, bytes.data(), bytes.size());
}

void GlooWire::require_all() {
    if (watch_) {
        watch_->require_all();
    }
}

void GlooWire::give_up(const std::string& why) noexcept {
    if (watch_) {
        watch_->set_loss(why);
    }
}

void GlooWire::close() noexcept {
    if (watch_ && !is_closed_) {
        is_closed_ = true;
        watch_->set_loss("this worker's connections were closed after a failure: it must join another roster");
        connections_->closeConnections();
    }
}

}  // namespace accrue
