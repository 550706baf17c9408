#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
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

// Makes two authorities, each in a folder with certificates of a coordinator on this machine and of a worker.
constexpr const char* kMakeCertificates = R"(
set -e
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }
for authority in ours theirs; do
    mkdir $authority
    key $authority/ca.key
    openssl req -x509 -new -key $authority/ca.key -days 2 -subj "/CN=$authority" -out $authority/ca.pem
    for side in server worker; do
        key $authority/$side.key
        openssl req -new -key $authority/$side.key -subj "/CN=$side" -out $side.request
        printf 'subjectAltName=IP:127.0.0.1' > names
        openssl x509 -req -in $side.request -CA $authority/ca.pem -CAkey $authority/ca.key -CAcreateserial \
            -days 2 -extfile names -out $authority/$side.pem
    done
done
)";

class GrpcTlsTest : public ::testing::Test {
protected:
    void SetUp() override {
        if (std::system("openssl version > /dev/null 2>&1") != 0) {
            GTEST_SKIP() << "there is no command openssl, which makes the certificates of this test";
        }
        write_text(folder_ / "make.sh", kMakeCertificates);
        const std::string command = cat("cd '", folder_.path().string(), "' && sh make.sh > make.log 2>&1");
        ASSERT_EQ(std::system(command.c_str()), 0) << read_text(folder_ / "make.log");
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
    EXPECT_NE(words.find("belong together?"), std::string::npos) << words;
}

}  // namespace
}  // namespace accrue::testing
