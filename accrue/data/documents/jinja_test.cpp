#include "accrue/data/documents/jinja.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"

namespace accrue {
namespace {

using testing::HasSubstr;

const nlohmann::json& jinja_variables() {
    static const nlohmann::json kVariables = {
        {"messages", {{{"role", "system"}, {"content", " S "}}, {{"role", "user"}, {"content", "U"}}}},
        {"bos_token", "<s>"},
        {"yes", true},
        {"two", 2}};
    return kVariables;
}

std::string rendered(const std::string& source) {
    return render_jinja(source, jinja_variables());
}

std::string jinja_fault(const std::string& source) {
    try {
        return "no error, but " + rendered(source);
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(JinjaTest, LoopsConditionsAndVariables) {
    EXPECT_EQ(rendered("a{{ bos_token }}b"), "a<s>b");
    EXPECT_EQ(rendered("{% for m in messages %}{{ m['role'] + m.content }};{% endfor %}"), "system S ;userU;");
    EXPECT_EQ(rendered("{% for m in messages %}{{ loop.index0 }}{{ loop.last }}{% endfor %}"), "0False1True");
    EXPECT_EQ(rendered("{% if two == 1 %}a{% elif two != 2 %}b{% else %}c{% endif %}"), "c");
    EXPECT_EQ(rendered("{% if yes %}{% if not yes %}a{% else %}b{% endif %}{% else %}c{% endif %}"), "b");
    EXPECT_EQ(rendered("{% set x = 'a' %}{% for m in messages %}{% set x = x + 'b' %}{{ x }}{% endfor %}{{ x }}"),
              "ababa")
        << "what a loop sets stays in it";
    EXPECT_EQ(
        rendered("{% set n = namespace(x=0) %}{% for m in messages %}{% set n.x = n.x + 1 %}{% endfor %}{{ n.x }}"),
        "2");
    EXPECT_EQ(rendered("{% for m in messages[1:] %}{{ m.role }}{% endfor %}{{ messages[-1].role }}"), "useruser");
    EXPECT_EQ(rendered("{% for m in messages[::-1] %}{{ m.role }} {% endfor %}"), "user system ");
    EXPECT_EQ(rendered("{% for i in range(0, messages | length) %}{{ messages[i]['role'] }}{% endfor %}"),
              "systemuser");
}

TEST(JinjaTest, Expressions) {
    EXPECT_EQ(rendered("{{ 'a' + messages[0].content | trim + 'b' }}"), "aSb") << "a filter binds first";
    EXPECT_EQ(rendered("{{ 'a' if two == 1 else 'b' if two == 3 else 'c' }}"), "c");
    EXPECT_EQ(rendered("{{ 'a' ~ two ~ none }}{{ nothing }}"), "a2None");
    EXPECT_EQ(rendered("{{ nothing is defined }}{{ yes is not defined }}{{ two is not none }}"), "FalseFalseTrue");
    EXPECT_EQ(rendered("{{ 'b' in 'abc' and 'role' in messages[0] and 'x' not in ['y'] }}"), "True");
    EXPECT_EQ(rendered("{{ yes or nothing.x }}{{ nothing and nothing.x }}"), "True") << "the left side decides";
    EXPECT_EQ(rendered("{{ (two % 2 == 0) != (two * 2 - 1 > 3) }}{{ -two }}"), "True-2");
    EXPECT_EQ(rendered("{{ 'a\\n' 'b' + \"\\\"'\" }}"), "a\nb\"'");
    EXPECT_EQ(rendered("{{ 'aB' | capitalize }}{{ 'ab'.startswith('a') }}{{ ' a '.strip() }}"), "AbTruea");
    EXPECT_EQ(rendered("{{ nothing | default('d') }}{{ ([{'a': 'x'}] + messages)[0].a }}"), "dx");
}

// As with trim_blocks and lstrip_blocks: a line that holds only a tag writes nothing.
TEST(JinjaTest, WhiteSpaceAroundTags) {
    EXPECT_EQ(rendered("a\n  {% if yes %}\n  b\n  {% endif %}\nc"), "a\n  b\nc");
    EXPECT_EQ(rendered("a {% if yes %} b{% endif %}\n{{ two }}\nc\n"), "a  b2\nc");
    EXPECT_EQ(rendered("a \n {{- two -}} \n b {%- if yes -%} c {%- endif %}"), "a2bc");
    EXPECT_EQ(rendered("a{# no {{ text }} #}\nb{ {% if yes %}\n\n{% endif %}"), "ab{ \n");
    EXPECT_EQ(rendered("{% if yes %}\n  {% if yes %}\n  x{{ '%}' }}\n  {% endif %}\n{% endif %}"), "  x%}\n");
}

// What is in a branch that is not taken does no harm, whatever it is.
TEST(JinjaTest, OnlyWhatIsReachedMustBeKnown) {
    const std::string source =
        "{% if tools is defined %}{% for a, b in tools | items %}{{ a | tojson(indent=4) }}"
        "{% endfor %}{% else %}ok{% endif %}";
    EXPECT_EQ(rendered(source), "ok");
    EXPECT_THAT(jinja_fault("{{ messages | tojson }}"), HasSubstr("the filter tojson"));
    EXPECT_EQ(rendered("{% macro a(b) %}{% if b %}x{% endif %}{% endmacro %}y"), "y");
    EXPECT_THAT(jinja_fault("{% macro a() %}x{% endmacro %}{{ a() }}"), HasSubstr("the function a"));
    EXPECT_THAT(jinja_fault("{% include 'x' %}"), HasSubstr("the statement include"));
    EXPECT_THAT(jinja_fault("{{ raise_exception('no system') }}"), HasSubstr("\"no system\""));
    EXPECT_THAT(jinja_fault("{{ strftime_now('%d') }}"), HasSubstr("strftime_now"));
    EXPECT_THAT(jinja_fault("{{ 'a'.upper() }}"), HasSubstr("the method upper"));
    EXPECT_THAT(jinja_fault("{{ two is divisibleby }}"), HasSubstr("the test divisibleby"));
}

TEST(JinjaTest, FaultsAreErrors) {
    for (const char* source : {"{{",
                               "{{ 'a }}",
                               "{% if yes %}",
                               "{% for a in %}{% endfor %}",
                               "{{ 'a' + 1 }}",
                               "{{ nothing.x }}",
                               "{% endif %}",
                               "{{ messages }}",
                               "{{ 1 2 }}",
                               "{% set = 1 %}",
                               "{% set %}",
                               "{% set a. %}",
                               "{% for %}",
                               "{{ (1 }}",
                               "{{ [1 }}",
                               "{{ {'a' 1} }}",
                               "{{ f(1 }}",
                               "{{ a. }}",
                               "{{ a| }}",
                               "{{ a is }}",
                               "{{ '\\q' }}",
                               "{{ 99999999999 }}",
                               "{{ messages[1 2] }}",
                               "{{ messages[::2] }}",
                               "{{ [[1]] }}",
                               "{{ 5 % 0 }}",
                               "{{ }}",
                               "{% %}",
                               "{{ messages[:::] }}",
                               "{{ range('a') }}",
                               "{% for m in nothing %}{% endfor %}",
                               "{{ 1 == }}",
                               "{% for m in messages %}{% else %}{% endfor %}",
                               "{{ range(1, 99999) }}"}) {
        EXPECT_EQ(jinja_fault(source).find("no error"), std::string::npos) << source << ": " << jinja_fault(source);
    }
}

TEST(JinjaTest, NoTemplateTakesLongOrMuch) {
    std::string loops;
    for (const char* name : {"a", "b", "c", "d"}) {
        loops += std::string("{% for ") + name + " in range(1000) %}";
    }
    EXPECT_THAT(jinja_fault(loops + "x{% endfor %}{% endfor %}{% endfor %}{% endfor %}"), HasSubstr("more work"));
    EXPECT_THAT(
        jinja_fault("{% set n = namespace(x='x') %}{% for a in range(900) %}{% set n.x = n.x + n.x %}{% endfor %}"),
        HasSubstr("more work"));
    EXPECT_THAT(
        jinja_fault("{% set n = namespace(x=2) %}{% for a in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}"),
        HasSubstr("such numbers"));
    EXPECT_THAT(jinja_fault("{{ " + std::string(100'000, '(') + " }}"), HasSubstr("nested too deep"));
    EXPECT_THAT(jinja_fault("{{ " + std::string(90, '(') + "'a'" + std::string(90, ')') + " }}"),
                HasSubstr("no error, but a"));
    std::string blocks;
    for (int i = 0; i < 1000; ++i) {
        blocks += "{% if yes %}";
    }
    for (int i = 0; i < 1000; ++i) {
        blocks += "{% endif %}";
    }
    EXPECT_THAT(jinja_fault(blocks), HasSubstr("nested too deep"));
}

}  // namespace
}  // namespace accrue
