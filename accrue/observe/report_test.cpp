#include "accrue/observe/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/observe/metrics.h"
#include "accrue/observe/report_style.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using Line = nlohmann::ordered_json;

class ReportTest : public testing::Test {
protected:
    [[nodiscard]] std::string page() const { return report_html(path_, {.title = "Run", .facts = {}}); }

    [[nodiscard]] std::string page_of(const std::string& text) const {
        write_text(path_, text);
        return page();
    }

    // Four steps; the third was skipped.
    void write_run() const {
        MetricsFile file(path_);
        file.append(line(1, 5.5, 2.0));
        Line second = line(2, 5.25, 1.0);
        second["validation_loss"] = 5.125;
        second["clipped"] = true;
        file.append(second);
        Line third = line(3, 0, 0.5);
        third["loss"] = nullptr;
        third["grad_norm"] = nullptr;
        third["noise_scale"] = nullptr;
        third["skipped"] = true;
        file.append(third);
        Line fourth = line(4, 4.75, 0.25);
        fourth["validation_loss"] = 4.625;
        fourth["replays"] = 2;
        fourth["peak_bytes"] = 3 << 20;
        file.append(fourth);
    }

    static Line line(int64_t step, double loss, double seconds) {
        return {{"step", step},
                {"loss", loss},
                {"tokens", 1024},
                {"rate", 0.001},
                {"grad_norm", 2.5},
                {"clipped", false},
                {"noise_scale", 300.0},
                {"skipped", false},
                {"replays", 0},
                {"seconds", seconds},
                {"tokens_per_second", 1024 / seconds},
                {"updates_per_hour", 3600 / seconds},
                {"peak_bytes", 2 << 20}};
    }

    static std::string figure(const std::string& label, const std::string& value) {
        return "<div><span>" + label + "</span><b>" + value + "</b></div>";
    }

    TemporaryFolder folder_;
    fs::path path_ = folder_ / "metrics.jsonl";
};

TEST_F(ReportTest, FiguresAreThoseOfTheMetrics) {
    write_run();
    const std::string html = page();
    EXPECT_THAT(html, HasSubstr(figure("Training loss", "5.5000<i>\u2192</i>4.7500")));
    EXPECT_THAT(html, HasSubstr(figure("Validation loss", "5.1250<i>\u2192</i>4.6250")));
    EXPECT_THAT(html, HasSubstr(figure("Optimizer steps", "4")));
    EXPECT_THAT(html, HasSubstr(figure("Tokens", "4,096")));
    EXPECT_THAT(html, HasSubstr(figure("Time in steps", "3.75 s")));
    EXPECT_THAT(html, HasSubstr(figure("Tokens per second, median", "1,536"))) << "of 512, 1024, 2048 and 4096";
    EXPECT_THAT(html, HasSubstr(figure("Updates per hour, median", "5,400")));
    EXPECT_THAT(html, HasSubstr(figure("Peak memory", "3.00 MiB")));
    EXPECT_THAT(html, HasSubstr(figure("Skipped windows", "1")));
    EXPECT_THAT(html, HasSubstr(figure("Replays", "2")));
    EXPECT_THAT(html, Not(HasSubstr("class=\"notice\"")));
}

TEST_F(ReportTest, WhereLossesAreScaledTheScaleIsShown) {
    write_run();
    EXPECT_THAT(page(), AllOf(Not(HasSubstr("Loss scale")), HasSubstr("<td>skipped </td>")));
    Line skipped = line(5, 4.5, 1);
    skipped["skipped"] = true;
    skipped["loss_scale"] = 2048;
    MetricsFile(path_).append(skipped);
    Line good = line(6, 4.5, 1);
    good["loss_scale"] = 1024;
    MetricsFile(path_).append(good);
    EXPECT_THAT(page(), AllOf(HasSubstr(figure("Loss scale", "1,024")),
                              HasSubstr("<td>skipped at loss scale 2,048 </td>"), HasSubstr("<td></td>")));
}

TEST_F(ReportTest, ValidationBeforeTheFirstStepIsTheFirstFigureAndAPointAtStepZero) {
    Line first = line(1, 5.5, 2.0);
    first["validation_loss_before"] = 5.625;
    MetricsFile(path_).append(first);
    Line second = line(2, 5.25, 1.0);
    second["validation_loss"] = 4.625;
    MetricsFile(path_).append(second);
    const std::string html = page();
    EXPECT_THAT(html, HasSubstr(figure("Validation loss", "5.6250<i>\u2192</i>4.6250")));
    EXPECT_THAT(html, HasSubstr("<title>step 0\nvalidation 5.625</title>"));
    EXPECT_THAT(html, ContainsRegex("<path class=\"points\" d=\"M0.0 [0-9.]+h0M1000.0 [0-9.]+h0\"/>"));
    EXPECT_THAT(html, Not(HasSubstr("<tr><td>0</td>"))) << "it is no optimizer step";
}

TEST_F(ReportTest, NumbersStayOnOneLine) {
    EXPECT_THAT(std::string(kReportStyle), ContainsRegex("\\.figures b \\{[^}]*white-space: nowrap"));
}

TEST_F(ReportTest, ARunWithoutValidationHasADash) {
    MetricsFile(path_).append(line(1, 5.5, 1));
    EXPECT_THAT(page(), HasSubstr(figure("Validation loss", "\u2013")));
    EXPECT_THAT(page(), HasSubstr(figure("Training loss", "5.5000")));
}

TEST_F(ReportTest, ASkippedWindowIsAGapInItsCharts) {
    write_run();
    const std::string html = page();
    // Loss from 4.6 to 5.6, the norm from 0 to 2.5; steps are at 0, 333.3, 666.7 and 1000.
    EXPECT_THAT(html, HasSubstr("<path class=\"line\" d=\"M0.0 20.0L333.3 70.0\"/>"
                                "<path class=\"line lone\" d=\"M1000.0 170.0h0\"/>"));
    EXPECT_THAT(html, HasSubstr("<path class=\"line\" d=\"M0.0 0.0L333.3 0.0\"/>"
                                "<path class=\"line lone\" d=\"M1000.0 0.0h0\"/>"));
    EXPECT_THAT(html, HasSubstr("<title>step 3\nskipped</title>"));
    EXPECT_THAT(html, HasSubstr("<title>step 2\nnorm 2.5\nclipped</title>"));
}

TEST_F(ReportTest, TheLastTenStepsAreInATable) {
    MetricsFile file(path_);
    for (int64_t step = 1; step <= 12; ++step) {
        file.append(line(step, 5, 1));
    }
    const std::string html = page();
    EXPECT_THAT(html,
                AllOf(HasSubstr("<tr><td>3</td>"), HasSubstr("<tr><td>12</td>"), Not(HasSubstr("<tr><td>2</td>"))));
    EXPECT_THAT(html,
                HasSubstr("<tr><td>12</td><td>5.0000</td><td>\u2013</td><td>2.5000</td><td>300.0</td><td>0.001</td>"
                          "<td>1,024</td><td>1.000</td><td>1,024</td><td></td></tr>"));
}

TEST_F(ReportTest, FactsAreShownInOrderAndEscaped) {
    write_run();
    const std::string html = report_html(
        path_, {.title = "a <script>alert(1)</script> & \"b\"", .facts = {{"Mo<del>", "<img src=x>"}, {"Seed", "1"}}});
    EXPECT_THAT(html, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("<img")), Not(HasSubstr("<del>"))));
    EXPECT_THAT(html, HasSubstr("<h1>a &lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;b&quot;</h1>"));
    EXPECT_THAT(html,
                HasSubstr("<dt>Mo&lt;del&gt;</dt><dd>&lt;img src=x&gt;</dd></div>\n<div><dt>Seed</dt><dd>1</dd>"));
}

TEST_F(ReportTest, ThePageNeedsNothingFromElsewhere) {
    write_run();
    EXPECT_THAT(page(), AllOf(Not(HasSubstr("http")), Not(HasSubstr("<link")), Not(HasSubstr("src=")),
                              Not(HasSubstr("url(")), Not(HasSubstr("@import"))));
}

TEST_F(ReportTest, AFileWithoutStepsSaysSo) {
    const std::string html = page_of("");
    EXPECT_THAT(html, AllOf(HasSubstr("metrics.jsonl has no optimizer step yet."), Not(HasSubstr("<svg")),
                            Not(HasSubstr("<table")), HasSubstr("<h1>Run</h1>")));
}

TEST_F(ReportTest, AFileThatCannotBeReadIsNamed) {
    EXPECT_THAT(page(), HasSubstr("metrics.jsonl could not be read."));
    fs::create_directory(path_);
    EXPECT_THAT(page(), HasSubstr("metrics.jsonl could not be read."));
}

TEST_F(ReportTest, LinesThatAreNoMetricsAreCountedAndLeftOut) {
    const std::string html = page_of(
        "{\"step\":1,\"loss\":5.5}\n"
        "not "
        "json\n\n[1]\n{\"loss\":1}\n{\"step\":-1}\n{\"step\":9223372036854775807}\n{\"step\":18446744073709551615}\n"
        "{\"step\":2,\"loss\":1e999}\n{\"step\":3,\"loss\":\"<b>\"}\n{\"step\":4,\"lo");
    EXPECT_THAT(html, HasSubstr("are left out here: 8."));
    EXPECT_THAT(html, HasSubstr(figure("Optimizer steps", "3")));
    EXPECT_THAT(html, HasSubstr(figure("Training loss", "5.5000")));
    EXPECT_THAT(html, Not(HasSubstr("<b></b>")));
}

TEST_F(ReportTest, ARunByWorkersSaysWhatTheyTook) {
    write_run();
    EXPECT_THAT(page(), Not(HasSubstr("Lost workers")));
    MetricsFile file(path_);
    Line fifth = line(5, 4.5, 1.0);
    fifth["workers"] = 3;
    fifth["exchange_seconds"] = 0.5;
    fifth["exchange_bytes"] = 2 << 20;
    fifth["lost_workers"] = 1;
    fifth["grains_recomputed"] = 7;
    file.append(fifth);
    EXPECT_THAT(page(), AllOf(HasSubstr("<span>Workers</span><b>3</b>"), HasSubstr("<span>Lost workers</span><b>1</b>"),
                              HasSubstr("<span>Sent by workers</span><b>2.00 MiB</b>"),
                              HasSubstr("<span>Grains computed again</span><b>7</b>")));
}

}  // namespace
}  // namespace accrue
