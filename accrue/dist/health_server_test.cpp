#include "accrue/dist/health_server.h"

#include <atomic>
#include <string>

#include <gtest/gtest.h>
#include <httplib.h>

#include "accrue/base/error.h"

namespace accrue::testing {
namespace {

class HealthServerTest : public ::testing::Test {
protected:
    std::atomic<bool> is_well_ = true;
    HealthServer server_{"127.0.0.1:0", [this] {
                             return Health{.is_well = is_well_, .words = is_well_ ? "step 7" : "nobody computes"};
                         }};
    httplib::Client client_{"http://" + server_.address()};
};

TEST_F(HealthServerTest, SaysHowItIs) {
    auto answer = client_.Get("/health");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, "step 7\n");
    is_well_ = false;
    answer = client_.Get("/health");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 503);
    EXPECT_EQ(answer->body, "nobody computes\n");
}

TEST_F(HealthServerTest, SaysNothingElse) {
    EXPECT_EQ(client_.Get("/")->status, 404);
    EXPECT_EQ(client_.Get("/etc/passwd")->status, 404);
    EXPECT_EQ(client_.Post("/health", std::string(100'000, 'x'), "text/plain")->status, 413);
    EXPECT_EQ(client_.Get("/health")->status, 200);
}

TEST_F(HealthServerTest, APortInUseIsAnError) {
    try {
        const HealthServer other(server_.address(), [] { return Health{}; });
        FAIL() << "two listen at " << server_.address();
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find("cannot tell how the run is at " + server_.address() + ": "), 0U)
            << error.what();
    }
}

}  // namespace
}  // namespace accrue::testing
