#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace accrue {

// What a worker must say to take part; the same for the coordinator and all its workers.
struct JoinTerms {
    std::string program_version;
    std::string run;    // a worker that leaves it empty comes for whichever run is led there
    std::string token;  // a secret
};

// Who may read and change what is said, and who may say anything.
struct NetworkSafety {
    // Has ca.pem, and for the coordinator server.pem and server.key, for workers worker.pem and worker.key: both sides show a
    // certificate of that authority, and the coordinator's is for the host that workers call. Empty: nothing is encrypted, and only
    // programs on the same machine may take part.
    std::filesystem::path certificates = {};
    // Without certificates, others may take part all the same.
    bool insecure_network = false;
};

struct GrpcServerOptions {
    std::string address = "127.0.0.1:0";  // host:port; port 0 = any that is free
    JoinTerms terms = {};
    NetworkSafety safety = {};
    int64_t answer_threads = 16;    // so many questions are answered at a time; more wait
    double joins_per_second = 100;  // so many workers may come for the first time; more wait
};

struct GrpcLinkOptions {
    std::string address;  // of the coordinator, host:port
    std::string worker;
    JoinTerms terms = {};
    NetworkSafety safety = {};
    std::chrono::milliseconds patience{60'000};  // without any answer, after which the coordinator is lost
    // After which the coordinator takes a worker for gone: it hears of it more often. The coordinator says it when it answers.
    std::chrono::milliseconds silence{10'000};
};

}  // namespace accrue
