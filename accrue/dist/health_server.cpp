#include "accrue/dist/health_server.h"

#include <chrono>
#include <thread>
#include <utility>

#include <httplib.h>

#include "accrue/base/error.h"
#include "accrue/dist/network_address.h"

namespace accrue {
namespace {

constexpr int kWell = 200;
constexpr int kUnwell = 503;
// Whoever asks sends a line, and waits for another.
constexpr size_t kThreads = 2;
constexpr size_t kMostBytes = 4096;
constexpr auto kTimeout = std::chrono::seconds(2);

}  // namespace

struct HealthServer::Server {
    httplib::Server http;
    std::thread thread;
};

HealthServer::HealthServer(const std::string& address, std::function<Health()> asked)
    : server_(std::make_unique<Server>()) {
    httplib::Server& http = server_->http;
    http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    http.set_keep_alive_max_count(1);
    http.set_payload_max_length(kMostBytes);
    http.set_read_timeout(kTimeout);
    http.set_write_timeout(kTimeout);
    http.Get("/health", [asked = std::move(asked)](const httplib::Request&, httplib::Response& response) {
        const Health health = asked();
        response.status = health.is_well ? kWell : kUnwell;
        response.set_content(health.words + "\n", "text/plain");
    });
    // The default also shares ports, so that two could listen on one.
    http.set_socket_options([](socket_t socket) {
        const int yes = 1;
        ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    NetworkAddress place = network_address_of(address);
    if (place.port == 0) {
        place.port = http.bind_to_any_port(place.host);
    } else if (!http.bind_to_port(place.host, static_cast<int>(place.port))) {
        place.port = -1;
    }
    if (place.port <= 0) {
        const std::string why = why_not_listening(network_address_of(address));
        throw Error(
            cat("cannot tell how the run is at ", address, ": ", why.empty() ? "nobody can listen there." : why));
    }
    address_ = text_of(place);
    server_->thread = std::thread([&http] { http.listen_after_bind(); });
}

HealthServer::~HealthServer() {
    while (!server_->http.is_running()) {  // or what ends it would come before it begins
        std::this_thread::yield();
    }
    server_->http.stop();
    server_->thread.join();
}

}  // namespace accrue
