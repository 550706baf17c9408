#include "accrue/cli/local_meeting.h"

#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/temporary_folder.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;

class LocalMeetingTest : public ::testing::Test {
protected:
    LocalMeetingTest() { ::setenv("TMPDIR", place_.path().c_str(), 1); }
    ~LocalMeetingTest() override { ::unsetenv("TMPDIR"); }

    [[nodiscard]] fs::path folder() const { return place_ / cat("accrue-", ::geteuid()); }

    TemporaryFolder place_;
    const MeetingPoint point_{.address = "127.0.0.1:7", .run = "runs/1", .token = "secret"};
};

TEST_F(LocalMeetingTest, OthersFindWhoLeads) {
    EXPECT_FALSE(LocalMeeting::find("slurm-1.0"));
    {
        const LocalMeeting meeting("slurm-1.0", point_);
        const auto found = LocalMeeting::find("slurm-1.0");
        ASSERT_TRUE(found);
        EXPECT_EQ(found->address, point_.address);
        EXPECT_EQ(found->run, point_.run);
        EXPECT_EQ(found->token, point_.token);
        EXPECT_FALSE(LocalMeeting::find("slurm-1.1"));
    }
    EXPECT_FALSE(LocalMeeting::find("slurm-1.0"));
    EXPECT_TRUE(fs::is_empty(folder()));
}

TEST_F(LocalMeetingTest, NobodyElseCanReadTheSecret) {
    const LocalMeeting meeting("slurm-1.0", point_);
    struct stat facts = {};
    ASSERT_EQ(::stat(folder().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777U, 0700U);
}

TEST_F(LocalMeetingTest, AFolderThatOthersCanOpenIsRefused) {
    ASSERT_EQ(::mkdir(folder().c_str(), 0777), 0);
    ASSERT_EQ(::chmod(folder().c_str(), 0777), 0);
    EXPECT_THROW(LocalMeeting("slurm-1.0", point_), Error);
    EXPECT_THROW((void)LocalMeeting::find("slurm-1.0"), Error);
}

TEST_F(LocalMeetingTest, NamesOfJobsStayInTheFolder) {
    const LocalMeeting meeting("../../a/b", point_);
    EXPECT_TRUE(LocalMeeting::find("../../a/b"));
    EXPECT_FALSE(fs::is_empty(folder()));
}

// Of a leader that was killed the file stays.
TEST_F(LocalMeetingTest, WhoeverDiedLeadsNobody) {
    const pid_t child = ::fork();
    if (child == 0) {
        const LocalMeeting meeting("slurm-1.0", point_);
        ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_FALSE(fs::is_empty(folder()));
    EXPECT_FALSE(LocalMeeting::find("slurm-1.0"));
    const LocalMeeting meeting("slurm-1.0", point_);
    EXPECT_TRUE(LocalMeeting::find("slurm-1.0"));
}

TEST_F(LocalMeetingTest, TwoCannotLead) {
    const LocalMeeting meeting("slurm-1.0", point_);
    const pid_t child = ::fork();
    if (child == 0) {
        int code = 1;
        try {
            const LocalMeeting other("slurm-1.0", point_);
        } catch (const Error& error) {
            code = std::string(error.what()).find("leads the job \"slurm-1.0\" already") != std::string::npos ? 0 : 2;
        }
        ::_exit(code);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace accrue::testing
