#include "accrue/observe/metrics.h"

#include <cmath>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using Line = nlohmann::ordered_json;

class MetricsTest : public testing::Test {
protected:
    // The file's text after keep_steps.
    [[nodiscard]] std::string kept(const std::string& text, int64_t last_step) const {
        write_text(path_, text);
        MetricsFile::keep_steps(path_, last_step);
        return read_text(path_);
    }

    template <class Action>
    static std::string error_of(Action action) {
        try {
            action();
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    TemporaryFolder folder_;
    fs::path path_ = folder_ / "metrics.jsonl";
};

TEST_F(MetricsTest, EachObjectIsALineInItsOwnOrder) {
    {
        MetricsFile file(path_);
        file.append(Line{{"step", 1}, {"loss", 0.1}, {"a", "b\n"}});
        EXPECT_EQ(read_text(path_), "{\"step\":1,\"loss\":0.1,\"a\":\"b\\n\"}\n") << "nothing waits in a buffer";
    }
    MetricsFile again(path_);
    again.append(Line{{"step", 2}});
    EXPECT_EQ(read_text(path_), "{\"step\":1,\"loss\":0.1,\"a\":\"b\\n\"}\n{\"step\":2}\n");
}

TEST_F(MetricsTest, NumbersComeBackToTheLastBit) {
    const double loss = 0.1 + 0.2;
    MetricsFile(path_).append(Line{{"step", 1}, {"loss", loss}, {"bad", std::nan("")}});
    const Line read = Line::parse(read_text(path_));
    EXPECT_EQ(read["loss"].get<double>(), loss);
    EXPECT_TRUE(read["bad"].is_null());
}

TEST_F(MetricsTest, AFileThatCannotBeOpenedIsNamed) {
    EXPECT_THAT(error_of([&] { MetricsFile file(folder_.path()); }),
                AllOf(HasSubstr("cannot write metrics to"), HasSubstr(folder_.path().string())));
    EXPECT_THAT(error_of([&] { MetricsFile file(folder_ / "missing" / "x"); }), HasSubstr("No such file"));
}

// The file may grow by a part of the line only, as on a disk that becomes full.
TEST_F(MetricsTest, NoRoomLeavesNoHalfLine) {
    MetricsFile file(path_);
    file.append(Line{{"step", 1}});
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    const rlimit limited = {20, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
    const std::string error = error_of([&] { file.append(Line{{"step", 2}, {"loss", 2.5}}); });
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    EXPECT_THAT(error, AllOf(HasSubstr("metrics.jsonl"), HasSubstr("cannot write metrics"),
                             HasSubstr("the file size limit is reached")));
    EXPECT_EQ(read_text(path_), "{\"step\":1}\n");
    file.append(Line{{"step", 2}});
    EXPECT_EQ(read_text(path_), "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(MetricsTest, TheLastLineIsFoundAndReplaced) {
    EXPECT_EQ(MetricsFile::last_line(path_), std::nullopt) << "there is no file";
    for (const char* before : {"", "{\"step\":1}\n"}) {
        write_text(path_, cat(before, "{\"step\":2,\"loss\":1.5}\n"));
        EXPECT_EQ(MetricsFile::last_line(path_), (Line{{"step", 2}, {"loss", 1.5}}));
        MetricsFile::replace_last_line(path_, Line{{"step", 2}});
        EXPECT_EQ(read_text(path_), cat(before, "{\"step\":2}\n"));
    }
    for (const char* damaged : {"", "\n", "{\"step\":2}", "{\"step\":2}\nhalf\n"}) {
        write_text(path_, damaged);
        EXPECT_EQ(MetricsFile::last_line(path_), std::nullopt) << damaged;
    }
}

TEST_F(MetricsTest, TheLastLineOfALongFileIsFound) {
    const std::string long_line = cat("{\"step\":2,\"loss\":\"", std::string(200'000, 'x'), "\"}\n");
    for (const std::string& last : {std::string("{\"step\":3}\n"), long_line}) {
        write_text(path_, cat("{\"step\":1}\n", long_line, long_line, last));
        EXPECT_EQ(MetricsFile::last_line(path_), Line::parse(last));
    }
    write_text(path_, long_line);
    EXPECT_EQ(MetricsFile::last_line(path_), Line::parse(long_line));
}

TEST_F(MetricsTest, LaterStepsAreCut) {
    const std::string text = "{\"step\":1}\n{\"step\":2,\"loss\":1}\n{\"step\":3}\n";
    EXPECT_EQ(kept(text, 2), "{\"step\":1}\n{\"step\":2,\"loss\":1}\n");
    EXPECT_EQ(kept(text, 3), text);
    EXPECT_EQ(kept(text, 100), text);
    EXPECT_EQ(kept(text, 0), "");
    EXPECT_EQ(kept("", 5), "");
}

TEST_F(MetricsTest, HalfAndDamagedLinesAreCut) {
    for (const char* bad :
         {"{\"step\":2", "{\"step\":2}", "{\"step\":\n", "{\"loss\":1}\n", "[2]\n", "{\"step\":\"2\"}\n", "\n", "5"}) {
        EXPECT_EQ(kept(std::string("{\"step\":1}\n") + bad, 9), "{\"step\":1}\n") << bad;
    }
    EXPECT_EQ(kept(std::string("{\"step\":1}\n\0\0\0\n", 15), 9), "{\"step\":1}\n");
}

TEST_F(MetricsTest, WithoutAFileThereIsNothingToCut) {
    MetricsFile::keep_steps(path_, 5);
    EXPECT_FALSE(fs::exists(path_));
}

}  // namespace
}  // namespace accrue
