#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/dist/certificates.h"
#include "accrue/dist/grpc_link.h"
#include "accrue/dist/grpc_server.h"
#include "accrue/dist/link_testing.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// Of who is not heard anyway.
constexpr milliseconds kShort{1000};

const JoinTerms kTlsTerms{.program_version = "0.1.0", .run = "runs/small", .token = "bread and salt"};

class GrpcTlsTest : public ::testing::Test {
protected:
    // Two authorities, each with certificates of a coordinator on this machine and of a worker.
    GrpcTlsTest() {
        make_certificates(folder_ / "ours", {"127.0.0.1"});
        make_certificates(folder_ / "theirs", {"127.0.0.1"});
    }
    [[nodiscard]] GrpcServerOptions server_options() const {
        return {.terms = kTlsTerms, .safety = {.certificates = folder_ / "ours"}};
    }
    // What a worker with such certificates hears, if it is as patient as that.
    [[nodiscard]] static std::string answer(const GrpcServer& server, const fs::path& certificates,
                                            milliseconds patience = milliseconds(60'000)) {
        GrpcLink link({.address = server.address(),
                       .worker = "a",
                       .terms = kTlsTerms,
                       .safety = {.certificates = certificates},
                       .patience = patience});
        return link.ask("data", "?");
    }
    static void expect_disbelief(const GrpcServer& server, const fs::path& certificates) {
        try {
            (void)answer(server, certificates);
            FAIL() << "it believes";
        } catch (const Error& error) {
            const std::string words = error.what();
            EXPECT_NE(words.find("worker a does not believe that " + server.address()), std::string::npos) << words;
        }
    }
    [[nodiscard]] std::string words_of_listening() {
        try {
            const GrpcServer server(desk_, answers_, server_options());
        } catch (const Error& error) {
            return error.what();
        }
        return "it listens";
    }

    TemporaryFolder folder_;
    EchoAnswers answers_;
    CoordinatorDesk desk_{{.silence_seconds = 60}};
};

TEST_F(GrpcTlsTest, WorkersOfTheSameAuthorityAreHeard) {
    const GrpcServer server(desk_, answers_, server_options());
    EXPECT_EQ(answer(server, folder_ / "ours"), "a asks for data: ?");
}

TEST_F(GrpcTlsTest, WithCertificatesOthersMayListenWithoutAWarning) {
    GrpcServerOptions options = server_options();
    options.address = "0.0.0.0:0";
    const GrpcServer server(desk_, answers_, options);
    EXPECT_EQ(server.warning(), "");
}

// It trusts our coordinator, but has a certificate that anybody could have made.
TEST_F(GrpcTlsTest, WorkersThatOnlyKnowTheAuthorityAreNot) {
    const GrpcServer server(desk_, answers_, server_options());
    fs::copy_file(folder_ / "ours" / "ca.pem", folder_ / "theirs" / "ca.pem", fs::copy_options::overwrite_existing);
    EXPECT_THROW((void)answer(server, folder_ / "theirs", kShort), CoordinatorLost);
    EXPECT_EQ(answer(server, folder_ / "ours"), "a asks for data: ?");
}

TEST_F(GrpcTlsTest, WorkersWithoutCertificatesAreNot) {
    const GrpcServer server(desk_, answers_, server_options());
    EXPECT_THROW((void)answer(server, "", kShort), CoordinatorLost);
}

TEST_F(GrpcTlsTest, ACoordinatorOfAnotherAuthorityIsNotBelieved) {
    const GrpcServer server(desk_, answers_, server_options());
    expect_disbelief(server, folder_ / "theirs");
}

TEST_F(GrpcTlsTest, ACertificateForAnotherHostIsNotBelieved) {
    GrpcServerOptions options = server_options();
    options.address = "127.0.0.2:0";
    const GrpcServer server(desk_, answers_, options);
    expect_disbelief(server, folder_ / "ours");
}

TEST_F(GrpcTlsTest, KeysAreTheirOwnersAlone) {
    for (const char* const key : {"server.key", "worker.key"}) {
        EXPECT_EQ(fs::status(folder_ / "ours" / key).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    }
}

TEST_F(GrpcTlsTest, CertificatesAreForHostsAndReplaceNothing) {
    const auto words_of = [](const fs::path& folder, const std::vector<std::string>& hosts) -> std::string {
        try {
            make_certificates(folder, hosts);
        } catch (const Error& error) {
            return error.what();
        }
        return "they are made";
    };
    const std::string before = read_text(folder_ / "ours" / "server.key");
    EXPECT_NE(words_of(folder_ / "ours", {"127.0.0.1"}).find("is not an empty folder"), std::string::npos);
    EXPECT_EQ(read_text(folder_ / "ours" / "server.key"), before);
    for (const std::string host : {"", "two words", "a,DNS:b", "a:7700"}) {
        EXPECT_NE(words_of(folder_ / "other", {host}).find("neither a host name nor an address"), std::string::npos);
        EXPECT_FALSE(fs::exists(folder_ / "other")) << host;
    }
    EXPECT_EQ(words_of(folder_ / "other", {"localhost", "fd00::7", "10.0.0.7"}), "they are made");
}

TEST_F(GrpcTlsTest, AFileThatIsMissingIsNamed) {
    fs::remove(folder_ / "ours" / "server.key");
    const std::string words = words_of_listening();
    EXPECT_NE(words.find((folder_ / "ours").string() + " has no server.key"), std::string::npos) << words;
}

TEST_F(GrpcTlsTest, AFileThatHoldsSomethingElseIsNamed) {
    fs::copy_file(folder_ / "ours" / "server.key", folder_ / "ours" / "server.pem",
                  fs::copy_options::overwrite_existing);
    const std::string words = words_of_listening();
    EXPECT_NE(words.find("server.pem holds no CERTIFICATE"), std::string::npos) << words;
}

TEST_F(GrpcTlsTest, AKeyOfAnotherCertificateIsAnError) {
    fs::copy_file(folder_ / "theirs" / "server.key", folder_ / "ours" / "server.key",
                  fs::copy_options::overwrite_existing);
    const std::string words = words_of_listening();
    EXPECT_NE(words.find("server.key in " + (folder_ / "ours").string() + " is not the key of server.pem"),
              std::string::npos)
        << words;
}

}  // namespace
}  // namespace accrue::testing
