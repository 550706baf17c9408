#include "accrue/observe/html_text.h"

#include <cmath>

#include <gtest/gtest.h>

namespace accrue {
namespace {

const std::string kDash = "\u2013";

TEST(HtmlTextTest, MarkupBecomesText) {
    EXPECT_EQ(escape_html("<b a=\"1\" c='2'>&amp;</b>"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;&lt;/b&gt;");
    EXPECT_EQ(escape_html("plain \u00e9"), "plain \u00e9");
}

TEST(HtmlTextTest, NumbersAreShortButKeepWhatMatters) {
    EXPECT_EQ(number_text(0), "0");
    EXPECT_EQ(number_text(5.54673), "5.5467");
    EXPECT_EQ(number_text(999), "999");
    EXPECT_EQ(number_text(1000), "1,000");
    EXPECT_EQ(number_text(-1234567), "-1,234,567");
    EXPECT_EQ(number_text(-123456), "-123,456");
    EXPECT_EQ(number_text(0.00003), "3.00e-05");
    EXPECT_EQ(number_text(1e20), "1.00e+20");
    EXPECT_EQ(number_text(std::nan("")), kDash);
}

TEST(HtmlTextTest, LargeNumbersGetAUnit) {
    EXPECT_EQ(short_number_text(81920), "81,920");
    EXPECT_EQ(short_number_text(524288), "524.3k");
    EXPECT_EQ(short_number_text(1.25e6), "1.25M");
    EXPECT_EQ(short_number_text(3e9), "3G");
    EXPECT_EQ(short_number_text(4.5e13), "45T");
    EXPECT_EQ(short_number_text(std::nan("")), kDash);
}

TEST(HtmlTextTest, DurationsHaveTwoUnitsAtMost) {
    EXPECT_EQ(duration_text(23.24), "23.2 s");
    EXPECT_EQ(duration_text(200), "3 min 20 s");
    EXPECT_EQ(duration_text(7500), "2 h 05 min");
    EXPECT_EQ(duration_text(std::nan("")), kDash);
}

// 59.99 must not become "60 s", nor 3599.7 "60 min 00 s".
TEST(HtmlTextTest, DurationsCarryWhenRounded) {
    EXPECT_EQ(duration_text(59.99), "1 min 00 s");
    EXPECT_EQ(duration_text(3599.7), "1 h 00 min");
}

}  // namespace
}  // namespace accrue
