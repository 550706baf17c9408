#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "accrue/base/error.h"

namespace accrue {

// Nobody of a cluster answers.
class EtcdSilent final : public Error {
public:
    using Error::Error;
};

struct EtcdOptions {
    // "http://host:2379", several with commas between; "https" where `certificates` has ca.pem, server.pem and server.key.
    std::string endpoints;
    std::filesystem::path certificates = {};
    std::chrono::milliseconds patience{5000};  // with each of them
};

// A cluster of etcd, which keeps a few words for all who share it: keys and values, each change of which has a number that grows,
// the revision. Calls throw EtcdSilent where no member of it answers within seconds, and an Error with its words where it
// refuses. For several threads, one at a time.
class Etcd {
public:
    // Asks nobody yet. An Error if the endpoints cannot be read.
    explicit Etcd(const EtcdOptions& options);
    ~Etcd();
    Etcd(const Etcd&) = delete;
    Etcd& operator=(const Etcd&) = delete;

    struct Value {
        std::string text;
        int64_t created_at = 0;  // revisions
        int64_t changed_at = 0;
    };
    [[nodiscard]] std::optional<Value> get(const std::string& key);

    // A number, under which keys are put that go when it was not renewed for so long.
    [[nodiscard]] int64_t begin_lease(int64_t seconds);
    // False: it has ended.
    [[nodiscard]] bool renew_lease(int64_t lease);
    void end_lease(int64_t lease);

    // What must hold of a key; revision 0 = there is none.
    struct Condition {
        std::string key;
        enum class Of { creation, change } of = Of::creation;
        int64_t revision = 0;
    };
    struct Put {
        std::string key;
        std::string text;
        int64_t lease = 0;  // 0 = stays for ever
    };
    // All of it if all conditions hold, or nothing. Where an answer is lost it asks again, and so may say false of what it has
    // done itself: look whether it is there.
    [[nodiscard]] bool put_if(const std::vector<Condition>& conditions, const std::vector<Put>& puts);

private:
    struct Endpoint;

    [[nodiscard]] std::string ask(const std::string& path, const std::string& question);

    std::mutex mutex_;
    std::vector<std::unique_ptr<Endpoint>> endpoints_;
    size_t first_ = 0;  // the one that answered last
};

}  // namespace accrue
