#include "accrue/assess/verify_workers.h"

#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace accrue {
namespace {

using ::testing::HasSubstr;
using Outcome = ProcessesWay::Outcome;

ProcessesReport some_report() {
    ProcessesReport report{.model = "tiny", .parameters = 1000, .workers = 3, .windows = 4, .grains = 8};
    report.add({.name = "one process", .sha256 = std::string(64, 'a'), .seconds = 1});
    report.add({.name = "3 workers", .sha256 = std::string(64, 'a'), .seconds = 2, .workers = 3});
    return report;
}

std::string text_of(const ProcessesReport& report) {
    std::string text = processes_head(report);
    for (const ProcessesWay& way : report.ways) {
        text += processes_line(way) + "\n";
    }
    text += processes_tail(report);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(line.size(), 80U) << line;
    }
    return text;
}

TEST(VerifyWorkersTest, TheSameFileEverywhereHolds) {
    ProcessesReport report = some_report();
    report.add({.name = "3 workers, one killed",
                .sha256 = std::string(64, 'a'),
                .workers = 3,
                .lost_workers = 1,
                .grains_recomputed = 2});
    EXPECT_TRUE(report.holds());
    EXPECT_EQ(report.ways.front().outcome, Outcome::reference);
    EXPECT_EQ(report.ways.back().outcome, Outcome::same);
    const std::string text = text_of(report);
    EXPECT_THAT(text, HasSubstr("The law holds: 3 ways to compute 4 window(s)"));
    EXPECT_THAT(text, HasSubstr(std::string(64, 'a')));
    EXPECT_THAT(text, HasSubstr("1 worker(s) killed with SIGKILL: 2 grain(s) were computed again"));
    EXPECT_TRUE(to_json(report).at("law_holds"));
}

TEST(VerifyWorkersTest, AnotherFileBreaksTheLaw) {
    ProcessesReport report = some_report();
    report.add({.name = "3 workers, one killed", .sha256 = std::string(64, 'b'), .workers = 3, .lost_workers = 1});
    EXPECT_FALSE(report.holds());
    EXPECT_THAT(text_of(report), HasSubstr("does NOT hold"));
    EXPECT_EQ(to_json(report).at("ways").at(2).at("outcome"), "differs");
    EXPECT_FALSE(to_json(report).at("law_holds"));
}

TEST(VerifyWorkersTest, WhatWasNotTriedProvesNothing) {
    ProcessesReport report = some_report();
    report.add({.name = "3 workers, one killed", .outcome = Outcome::not_tried, .workers = 3});
    EXPECT_FALSE(report.holds());
    EXPECT_THAT(text_of(report), HasSubstr("--windows 16"));
}

}  // namespace
}  // namespace accrue
