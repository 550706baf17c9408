// `accrue serve` and `accrue work`: workers that come and go on their own, wherever they are.

#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "tests/running_program.h"
#include "tests/support.h"
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accrue/base/file.h"
#include "accrue/dist/network_address.h"
#include "accrue/dist/own_address.h"
#include "accrue/observe/metrics_rows.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kToken = {"ACCRUE_WORKER_TOKEN=bread and salt"};

class ServeProgramTest : public ::testing::Test {
protected:
    using Program = std::unique_ptr<RunningProgram>;
    using Words = std::vector<std::string>;

    ServeProgramTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    static Words joined(Words first, const Words& more) {
        first.insert(first.end(), more.begin(), more.end());
        return first;
    }
    // What all runs have in common.
    [[nodiscard]] Words of_run(const std::string& run, const Words& settings = {}) const {
        Words words;
        for (const std::string& setting :
             joined({"model.from=" + golden("llama").string(), "data.train=" + (folder_ / "data.safetensors").string(),
                     "window.samples=7", "window.grain_samples=1", "schedule.kind=constant", "schedule.warmup_steps=0",
                     "run.checkpoint_steps=10", "run.evaluate_steps=0", "compute.device=cpu",
                     "run.folder=" + (folder_ / run).string()},
                    settings)) {
            words.insert(words.end(), {"--set", setting});
        }
        return words;
    }
    [[nodiscard]] static Program serve(const Words& words, const std::string& listen = "127.0.0.1:0",
                                       const Words& environment = {}) {
        return std::make_unique<RunningProgram>(joined({"serve", "--listen", listen}, words), environment);
    }
    [[nodiscard]] static Program work(const std::string& address, const Words& words = {},
                                      const Words& environment = {}) {
        return std::make_unique<RunningProgram>(joined({"work", "--join", address, "--threads", "1"}, words),
                                                environment);
    }
    // Where it listens, as it says.
    [[nodiscard]] static std::string address_of(RunningProgram& serve) {
        EXPECT_TRUE(serve.says("accrue work --join ")) << serve.output();
        const std::string output = serve.output();
        const size_t first = output.find("--join ") + 7;
        return output.substr(first, output.find_first_of(" \n", first) - first);
    }
    // Of the run that one process computes.
    [[nodiscard]] std::string undisturbed(int64_t steps) {
        const ProgramResult result = run_program(joined({"train"}, of_run("alone", {cat("schedule.steps=", steps)})));
        EXPECT_EQ(result.exit_code, 0) << result.output;
        return weights("alone");
    }
    [[nodiscard]] std::string weights(const std::string& run) const {
        return sha256_of(folder_ / run / "model" / "model.safetensors");
    }
    [[nodiscard]] int64_t steps_of(const std::string& run) const {
        int64_t steps = 0;
        (void)read_metrics(folder_ / run / "metrics.jsonl", [&](const MetricsRow&) { ++steps; });
        return steps;
    }
    static void expect_end(RunningProgram& program, int code, const std::string& words) {
        EXPECT_EQ(program.wait(), code) << program.output();
        EXPECT_THAT(program.output(), HasSubstr(words));
    }
    // As a program that cannot go on says it.
    static void expect_error(const Words& arguments, const Words& environment, const std::string& words) {
        RunningProgram program(arguments, environment);
        expect_end(program, 1, words);
    }

    TemporaryFolder folder_;
};

TEST_F(ServeProgramTest, WorkersThatJoinGiveTheFileOfOneProcess) {
    const Program leader = serve(joined(of_run("team", {"schedule.steps=40"}), {"--workers", "2"}));
    const std::string address = address_of(*leader);
    const Program first = work(address);
    EXPECT_TRUE(leader->says("1 of 2 workers")) << leader->output();
    const Program second = work(address, {"--memory", "1GiB", "--run", (folder_ / "team").string()});
    expect_end(*leader, 0, "Done: 40 steps");
    expect_end(*first, 0, "all its steps are done");
    expect_end(*second, 0, "all its steps are done");
    EXPECT_THAT(leader->output(), HasSubstr("joined: 2 workers"));
    EXPECT_EQ(weights("team"), undisturbed(40));
}

TEST_F(ServeProgramTest, WorkersMeetByIpv6) {
    if (!why_not_listening({.host = "::1", .port = 0}).empty()) {
        GTEST_SKIP() << "this machine has no IPv6";
    }
    const Program leader = serve(joined(of_run("team", {"schedule.steps=20"}), {"--workers", "2"}), "[::1]:0");
    const std::string address = address_of(*leader);
    EXPECT_THAT(address, HasSubstr("[::1]:"));
    const Program first = work(address);
    const Program second = work(address);
    expect_end(*leader, 0, "Done: 20 steps");
    expect_end(*first, 0, "met by others at ::1");
    expect_end(*second, 0, "all its steps are done");
    EXPECT_EQ(weights("team"), undisturbed(20));
}

// The run is longer than anybody waits: it is stopped when all of it has happened.
TEST_F(ServeProgramTest, WorkersComeAndGoInMidRunAndTheRunGoesOnFromWhereItStopped) {
    const Program leader = serve(of_run("team", {"schedule.steps=1000000"}));
    const std::string address = address_of(*leader);
    const Program first = work(address);
    EXPECT_TRUE(leader->says("step 3/")) << leader->output();
    const Program second = work(address);
    EXPECT_TRUE(leader->says("joined: 2 workers")) << leader->output();
    EXPECT_TRUE(first->says("giving the run's weights and moments to others")) << first->output();
    first->send(SIGTERM);  // it leaves when they are given
    expect_end(*first, 0, "leaving the run");
    EXPECT_TRUE(leader->says("has left: 1 worker goes on")) << leader->output();
    leader->send(SIGINT);
    expect_end(*leader, 3, "All of it is saved");
    expect_end(*second, 0, "the run was stopped");

    const std::string steps = cat("schedule.steps=", steps_of("team") + 5);
    const Program resumed = serve({"--resume", (folder_ / "team").string(), "--set", steps});
    const Program third = work(address_of(*resumed));
    expect_end(*resumed, 0, "Done: ");
    expect_end(*third, 0, "all its steps are done");
    EXPECT_EQ(weights("team"), undisturbed(steps_of("team")));
}

TEST_F(ServeProgramTest, ARunThatWaitsForMoreWorkersIsStopped) {
    const Program leader = serve(joined(of_run("team"), {"--workers", "2"}));
    const Program worker = work(address_of(*leader));
    EXPECT_TRUE(leader->says("1 of 2 workers is there")) << leader->output();
    leader->send(SIGTERM);
    expect_end(*leader, 3, "Stopped before the first step");
    expect_end(*worker, 0, "the run was stopped");
}

TEST_F(ServeProgramTest, ARunWithoutWorkersWaitsForOthers) {
    const Program leader = serve(of_run("team", {"schedule.steps=3000"}));
    const std::string address = address_of(*leader);
    {
        const Program first = work(address);
        EXPECT_TRUE(leader->says("step 12/")) << leader->output();
        first->send(SIGTERM);
        expect_end(*first, 0, "leaving the run");
    }
    EXPECT_TRUE(leader->says("No worker is left: the run waits for one")) << leader->output();
    const Program second = work(address);
    EXPECT_TRUE(leader->says("it goes on from the last checkpoint")) << leader->output();
    leader->send(SIGINT);
    expect_end(*leader, 3, "saved");
}

// Its workers may count as gone when it wakes up, and join again one by one with what they have: that counts, or nothing of it.
TEST_F(ServeProgramTest, ALeaderThatSleptLongerThanWorkersMayBeSilentMakesTheSameWeights) {
    const Words settings = {"schedule.steps=150", "run.checkpoint_steps=1000", "workers.heartbeat_seconds=1"};
    const Program leader = serve(joined(of_run("team", settings), {"--workers", "3"}));
    const std::string address = address_of(*leader);
    const Program workers[] = {work(address), work(address), work(address)};
    for (const std::string step : {"step 12/", "step 60/"}) {
        EXPECT_TRUE(leader->says(step)) << leader->output();
        leader->send(SIGSTOP);
        std::this_thread::sleep_for(std::chrono::milliseconds(2500));
        leader->send(SIGCONT);
    }
    expect_end(*leader, 0, "Done: 150 steps");
    for (const Program& worker : workers) {
        expect_end(*worker, 0, "all its steps are done");
    }
    EXPECT_EQ(weights("team"), undisturbed(150));
}

// Two of three workers are killed, and with them all copies of a range: one alone could not hold the state.
TEST_F(ServeProgramTest, ARunThatLostItsStateAndWaitsForWorkersIsStopped) {
    const Program leader =
        serve(joined(of_run("team", {"schedule.steps=1000000", "workers.heartbeat_seconds=1"}), {"--workers", "3"}));
    const std::string address = address_of(*leader);
    const Program workers[] = {work(address), work(address), work(address)};
    EXPECT_TRUE(leader->says("step 12/")) << leader->output();
    workers[0]->send(SIGKILL);
    workers[1]->send(SIGKILL);
    EXPECT_TRUE(leader->says("1 worker goes on")) << leader->output();
    leader->send(SIGTERM);
    EXPECT_EQ(leader->wait(), 3) << leader->output();
    expect_end(*workers[2], 0, "the run was stopped");
}

// What a worker was told is no longer true: it asks again.
TEST_F(ServeProgramTest, AWorkerFindsALeaderThatWasKilledAndStartedAgain) {
    const Program killed = serve(of_run("team", {"schedule.steps=1000000"}));
    const std::string address = address_of(*killed);
    const Program worker = work(address);
    EXPECT_TRUE(killed->says("step 12/")) << killed->output();
    killed->send(SIGKILL);
    EXPECT_EQ(killed->wait(), 128 + SIGKILL);
    const std::string steps = cat("schedule.steps=", steps_of("team") + 20);
    const std::string term = read_text(folder_ / "team" / "run.term");
    const Program leader = serve({"--resume", (folder_ / "team").string(), "--set", steps}, address);
    expect_end(*leader, 0, "Done: ");
    EXPECT_GT(read_text(folder_ / "team" / "run.term"), term);
    expect_end(*worker, 0, "all its steps are done");
    EXPECT_THAT(worker->output(), HasSubstr("the run is led anew"));
    EXPECT_EQ(weights("team"), undisturbed(steps_of("team")));
}

TEST_F(ServeProgramTest, WhoHasNoTokenIsNamedAndTheRunGoesOn) {
    const Program leader = serve(of_run("team", {"schedule.steps=20"}), "127.0.0.1:0", kToken);
    const std::string address = address_of(*leader);
    EXPECT_THAT(leader->output(), AllOf(HasSubstr("ACCRUE_WORKER_TOKEN=..."), Not(HasSubstr("bread and salt"))));
    expect_error({"work", "--join", address, "--name", "mallory"}, {}, "it has another join token");
    expect_error({"work", "--join", address, "--run", "runs/other"}, kToken, "it comes for run runs/other");
    EXPECT_TRUE(leader->says("refused a call from 127.0.0.1: worker mallory may not take part")) << leader->output();
    const Program worker = work(address, {}, kToken);
    expect_end(*leader, 0, "Done: 20 steps");
    expect_end(*worker, 0, "all its steps are done");
    EXPECT_EQ(weights("team"), undisturbed(20));
    EXPECT_THAT(read_text(folder_ / "team" / "run.toml"), Not(HasSubstr("bread and salt")));
}

TEST_F(ServeProgramTest, AMachineWithOtherBitsIsRefusedUnlessTheRunGivesUpItsLaw) {
    const Words other_bits = {"ACCRUE_TEST_INSTRUCTION_SET=portable"};
    const Program strict = serve(of_run("team", {"schedule.steps=20"}));
    expect_error({"work", "--join", address_of(*strict), "--name", "old"}, other_bits, "workers.mixed = true");
    const Program worker = work(address_of(*strict));
    expect_end(*strict, 0, "Done: 20 steps");
    EXPECT_EQ(worker->wait(), 0);
    EXPECT_EQ(weights("team"), undisturbed(20));

    const Program mixed =
        serve(joined(of_run("mixed", {"schedule.steps=20", "workers.mixed=true"}), {"--workers", "2"}));
    const Program first = work(address_of(*mixed));
    const Program second = work(address_of(*mixed), {"--name", "old"}, other_bits);
    expect_end(*mixed, 0, "workers with other bits take part (old with cpu with portable");
    EXPECT_EQ(first->wait(), 0) << first->output();
    EXPECT_EQ(second->wait(), 0) << second->output();
    EXPECT_THAT(read_text(folder_ / "mixed" / "metrics.jsonl"), HasSubstr("\"mixed\":true"));
    EXPECT_THAT(run_program({"inspect", (folder_ / "mixed").string()}).output,
                HasSubstr("the weights depend on who computed what"));
}

TEST_F(ServeProgramTest, WhoOnlyItsOwnMachineReachesDoesNotJoinWorkersOfOthers) {
    const std::vector<std::string> addresses = addresses_of_this_machine();
    if (addresses.empty()) {
        GTEST_SKIP() << "this machine has no address but its own loopback";
    }
    const Program leader = serve(joined(of_run("team", {"schedule.steps=20"}), {"--workers", "2"}));
    const std::string address = address_of(*leader);
    const Program first = work(address, {"--address", addresses[0]});
    EXPECT_TRUE(leader->says("1 of 2 workers")) << leader->output();
    expect_error({"work", "--join", address}, {}, "leads nobody from one machine to another");
    const Program second = work(address, {"--address", addresses[0]});
    expect_end(*leader, 0, "Done: 20 steps");
    EXPECT_EQ(first->wait(), 0);
    EXPECT_EQ(second->wait(), 0);
}

// Bytes that mean nothing, and connections that say nothing, all the time that the run takes.
TEST_F(ServeProgramTest, WhateverStrangersSendTheRunGoesOn) {
    const Program leader = serve(of_run("team", {"schedule.steps=100"}));
    const NetworkAddress address = network_address_of(address_of(*leader));
    std::vector<int> strangers;
    const auto connect_one = [&](const std::string& bytes) {
        sockaddr_in where{};
        where.sin_family = AF_INET;
        where.sin_port = htons(static_cast<uint16_t>(address.port));
        inet_pton(AF_INET, address.host.c_str(), &where.sin_addr);
        const int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        strangers.push_back(stranger);
        EXPECT_EQ(connect(stranger, reinterpret_cast<const sockaddr*>(&where), sizeof(where)), 0);
        (void)send(stranger, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    };
    const Program worker = work(text_of(address));
    for (int round = 0; round < 300; ++round) {
        connect_one("");
        connect_one(std::string(5000, static_cast<char>(round)));
        connect_one("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(100, '\xff'));
    }
    expect_end(*leader, 0, "Done: 100 steps");
    expect_end(*worker, 0, "all its steps are done");
    for (const int stranger : strangers) {
        close(stranger);
    }
    EXPECT_EQ(weights("team"), undisturbed(100));
}

TEST_F(ServeProgramTest, MachinesThatAreNotThisOneSpeakWithCertificates) {
    const std::vector<std::string> addresses = addresses_of_this_machine();
    if (addresses.empty()) {
        GTEST_SKIP() << "this machine has no address but its own loopback";
    }
    const std::string folder = folder_ / "certificates";
    const ProgramResult made =
        run_program({"serve", "--make-certificates", folder, "--host", addresses[0], "--host", "localhost"});
    EXPECT_EQ(made.exit_code, 0) << made.output;
    EXPECT_THAT(made.output, AllOf(HasSubstr(addresses[0]), HasSubstr("copy ca.pem, worker.pem and worker.key")));
    for (const char* const key : {"server.key", "worker.key"}) {
        struct stat facts {};
        EXPECT_EQ(stat((folder + "/" + key).c_str(), &facts), 0);
        EXPECT_EQ(facts.st_mode & 0777, 0600U) << key;
    }
    const ProgramResult again = run_program({"serve", "--make-certificates", folder});
    EXPECT_EQ(again.exit_code, 1);
    EXPECT_THAT(again.output, HasSubstr("is not an empty folder"));

    const std::string listen = text_of(NetworkAddress{.host = addresses[0], .port = 0});
    const Program leader =
        serve(joined(of_run("team", {"schedule.steps=20", "workers.certificates=" + folder}), {"--workers", "2"}),
              listen, kToken);
    const std::string address = address_of(*leader);
    EXPECT_THAT(leader->output(), HasSubstr("sums and weights travel from worker to worker in clear"));
    expect_error({"work", "--join", address}, kToken, "without certificates everybody");
    expect_error({"work", "--join", address, "--certificates", folder}, {}, "it has another join token");
    expect_error({"work", "--join", address, "--insecure-network", "--patience", "2"}, kToken,
                 "do both sides have certificates");
    const Program first = work(address, {"--certificates", folder}, kToken);
    const Program second = work(address, {"--certificates", folder}, kToken);
    expect_end(*leader, 0, "Done: 20 steps");
    expect_end(*first, 0, "met by others at " + addresses[0]);
    expect_end(*second, 0, "all its steps are done");
    EXPECT_EQ(weights("team"), undisturbed(20));
}

TEST_F(ServeProgramTest, ACoordinatorThatIsNotThereIsGivenUp) {
    const Program leader = serve(of_run("team", {"schedule.steps=20"}));
    const std::string address = address_of(*leader);
    leader->send(SIGINT);
    expect_end(*leader, 3, "Stopped before the first step. Start again with the same command.");
    EXPECT_FALSE(fs::exists(folder_ / "team" / "run.toml"));
    RunningProgram worker({"work", "--join", address, "--patience", "1"});
    expect_end(worker, 1, "the coordinator at " + address + " was not reached for 1 s");
    EXPECT_THAT(worker.output(), HasSubstr("waiting for the coordinator at " + address));
}

TEST_F(ServeProgramTest, WhereNobodyMayListenIsSaidBeforeAnythingIsWritten) {
    const Program leader = serve(of_run("team"));
    const std::string taken = address_of(*leader);
    const auto expect_refusal = [&](const std::string& listen, const Words& settings, const std::string& words,
                                    const Words& environment = {}) {
        expect_error(joined({"serve", "--listen", listen}, of_run("refused", settings)), environment, words);
        EXPECT_FALSE(fs::exists(folder_ / "refused")) << listen;
    };
    expect_refusal(taken, {}, "another program has port");
    expect_refusal("192.0.2.77:7700", {"workers.insecure_network=true"}, "is none of this machine's addresses", kToken);
    expect_refusal("0.0.0.0:0", {}, "accrue serve --make-certificates FOLDER");
    expect_refusal("0.0.0.0:0", {"workers.insecure_network=true"}, "workers need a join token");
    expect_refusal("0.0.0.0:0", {"workers.certificates=" + folder_.path().string()}, "has no ca.pem", kToken);
    expect_refusal("localhost", {}, "is no address");
    expect_refusal("127.0.0.1:0", {"compute.sums=fp32"}, "only exact sums");
    EXPECT_EQ(run_program({"serve"}).exit_code, 2);
}

}  // namespace
}  // namespace accrue::testing
