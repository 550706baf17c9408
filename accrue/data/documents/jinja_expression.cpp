#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "accrue/base/error.h"
#include "accrue/data/documents/jinja_parts.h"

namespace accrue {
namespace {

constexpr int kDeepestExpression = 100;
constexpr std::array<std::string_view, 4> kJinjaFunctions = {"raise_exception", "namespace", "range", "strftime_now"};

}  // namespace

bool JinjaExpression::take(std::string_view sign) {
    const bool found = next().is(sign);
    place_ += found ? 1 : 0;
    return found;
}

void JinjaExpression::expect(std::string_view sign) {
    if (!take(sign)) {
        throw Error(cat("\"", next().text, "\" where ", sign, " is needed"));
    }
}

void JinjaExpression::expect_end() const {
    if (next().kind != JinjaToken::Kind::end) {
        throw Error(cat("\"", next().text, "\" behind an expression"));
    }
}

std::string JinjaExpression::take_name() {
    if (next().kind != JinjaToken::Kind::name) {
        throw Error(cat("\"", next().text, "\" where a name is needed"));
    }
    return tokens_[place_++].text;
}

// A value before "if" is read twice: to find its end, and once it is known that it counts.
JinjaValue JinjaExpression::value() {
    state_.spend();
    if (++depth_ > kDeepestExpression) {
        throw Error("an expression that is nested too deep");
    }
    const size_t begin = place_;
    (void)skipping([&] { (void)either(); });
    JinjaValue result = jinja_undefined();
    if (take("if")) {
        const bool holds = is_true(either());
        const size_t behind = place_;
        if (holds && !skips()) {
            place_ = begin;
            result = either();
            place_ = behind;
        }
        if (take("else")) {
            JinjaValue otherwise = holds ? skipping([&] { (void)value(); }) : value();
            result = holds ? std::move(result) : std::move(otherwise);
        }
    } else if (!skips()) {
        place_ = begin;
        result = either();
    }
    --depth_;
    return result;
}

JinjaValue JinjaExpression::either() {
    JinjaValue left = both();
    while (take("or")) {
        left = is_true(left) ? (skipping([&] { (void)both(); }), left) : both();
    }
    return left;
}

JinjaValue JinjaExpression::both() {
    JinjaValue left = negation();
    while (take("and")) {
        left = is_true(left) ? negation() : (skipping([&] { (void)negation(); }), left);
    }
    return left;
}

JinjaValue JinjaExpression::negation() {
    size_t count = 0;
    while (take("not")) {
        ++count;
    }
    JinjaValue value = comparison();
    return count == 0 ? value : JinjaValue(is_true(value) == (count % 2 == 0));
}

JinjaValue JinjaExpression::comparison() {
    JinjaValue left = sum();
    const size_t begin = place_;
    std::string sign = take("not") ? "not in" : next().text;
    constexpr std::array<std::string_view, 7> kSigns = {"==", "!=", "<", ">", "<=", ">=", "in"};
    const bool is_sign =
        std::any_of(kSigns.begin(), kSigns.end(), [&](std::string_view one) { return next().is(one); });
    if (!is_sign || (sign == "not in" && !next().is("in"))) {
        place_ = begin;
        return left;
    }
    ++place_;
    const JinjaValue right = sum();
    return skips() ? jinja_undefined() : JinjaValue(jinja_compared(sign, left, right));
}

JinjaValue JinjaExpression::sum() {
    JinjaValue left = joined();
    while (next().is("+") || next().is("-")) {
        const std::string sign = tokens_[place_++].text;
        const JinjaValue right = joined();
        left = skips() ? jinja_undefined() : jinja_computed(sign, left, right);
        state_.spend(left.is_string() ? left.get_ref<const std::string&>().size() : 0);
    }
    return left;
}

JinjaValue JinjaExpression::joined() {
    JinjaValue left = product();
    while (take("~")) {
        const JinjaValue right = product();
        if (!skips()) {
            left = jinja_text(left) + jinja_text(right);
            state_.spend(left.get_ref<const std::string&>().size());
        }
    }
    return left;
}

JinjaValue JinjaExpression::product() {
    JinjaValue left = signed_value();
    while (next().is("*") || next().is("%")) {
        const std::string sign = tokens_[place_++].text;
        const JinjaValue right = signed_value();
        left = skips() ? jinja_undefined() : jinja_computed(sign, left, right);
    }
    return left;
}

JinjaValue JinjaExpression::signed_value() {
    if (!take("-")) {
        return with_filters();
    }
    const JinjaValue value = with_filters();
    return skips() ? jinja_undefined() : jinja_computed("-", 0, value);
}

JinjaValue JinjaExpression::with_filters() {
    JinjaValue value = with_members();
    while (next().is("|") || next().is("is")) {
        if (take("|")) {
            const std::string name = take_name();
            const std::vector<Argument> given = next().is("(") ? arguments() : std::vector<Argument>();
            const JinjaValue argument = given.empty() ? jinja_undefined() : given.front().value;
            value = skips() ? jinja_undefined() : jinja_filtered(name, value, argument);
        } else {
            ++place_;
            value = test(value);
        }
    }
    return value;
}

bool JinjaExpression::test(const JinjaValue& value) {
    const bool negated = take("not");
    const std::string name = take_name();
    bool holds = false;
    if (name == "defined" || name == "undefined") {
        holds = value.is_discarded() == (name == "undefined");
    } else if (name == "none" || name == "None") {
        holds = value.is_null();
    } else if (name == "string") {
        holds = value.is_string();
    } else if (name == "mapping") {
        holds = value.is_object();
    } else if (name == "iterable" || name == "sequence") {
        holds = value.is_array() || value.is_string() || value.is_object();
    } else if (name == "number" || name == "integer") {
        holds = value.is_number();
    } else if (name == "boolean") {
        holds = value.is_boolean();
    } else if (name == "true" || name == "false") {
        holds = value.is_boolean() && value.get<bool>() == (name == "true");
    } else if (!skips()) {
        throw Error(cat("the test ", name));
    }
    return holds != negated;
}

JinjaValue JinjaExpression::with_members() {
    JinjaValue value = primary();
    while (next().is(".") || next().is("[")) {
        value = take(".") ? member(value) : element(value);
    }
    return value;
}

JinjaValue JinjaExpression::member(const JinjaValue& of) {
    const std::string name = take_name();
    if (next().is("(")) {
        const std::vector<Argument> given = arguments();
        return skips() ? jinja_undefined()
                       : jinja_method(of, name, given.empty() ? jinja_undefined() : given.front().value);
    }
    if (skips()) {
        return jinja_undefined();
    }
    if (of.is_discarded()) {
        throw Error(cat(".", name, " of a value that is undefined"));
    }
    return of.is_object() && of.contains(name) ? of[name] : jinja_undefined();
}

JinjaValue JinjaExpression::element(const JinjaValue& of) {
    expect("[");
    std::array<JinjaValue, 3> bounds = {jinja_undefined(), jinja_undefined(), jinja_undefined()};
    size_t colons = 0;
    while (!next().is("]")) {
        if (take(":")) {
            if (++colons == bounds.size()) {
                throw Error("a part of a list with three colons");
            }
        } else {
            bounds[colons] = value();
            if (!next().is(":") && !next().is("]")) {
                throw Error(cat("\"", next().text, "\" where ] is needed"));
            }
        }
    }
    ++place_;
    if (skips()) {
        return jinja_undefined();
    }
    return colons > 0 ? jinja_slice(of, bounds) : jinja_element(of, bounds[0]);
}

JinjaValue JinjaExpression::primary() {
    using Kind = JinjaToken::Kind;
    state_.spend();
    const JinjaToken& token = next();
    if (token.kind == Kind::string) {
        std::string text;
        while (next().kind == Kind::string) {
            text += tokens_[place_++].text;
        }
        return text;
    }
    if (token.kind == Kind::number) {
        int32_t number = 0;
        const char* const end = token.text.data() + token.text.size();
        const auto [stopped, error] = std::from_chars(token.text.data(), end, number);
        if (error != std::errc() || stopped != end) {
            throw Error(cat("the number ", token.text));
        }
        ++place_;
        return number;
    }
    if (take("(")) {
        JinjaValue inside = value();
        expect(")");
        return inside;
    }
    if (take("[")) {
        return list("]");
    }
    if (take("{")) {
        return dictionary();
    }
    return name_or_call();
}

JinjaValue JinjaExpression::list(std::string_view end) {
    JinjaValue values = JinjaValue::array();
    while (!take(end)) {
        values.push_back(value());
        if (!is_flat(values.back())) {
            throw Error("a list in a list");
        }
        if (!next().is(end)) {
            expect(",");
        }
    }
    return values;
}

JinjaValue JinjaExpression::dictionary() {
    JinjaValue values = JinjaValue::object();
    while (!take("}")) {
        const JinjaValue name = value();
        expect(":");
        JinjaValue contents = value();
        if (!skips()) {
            if (!name.is_string() || !contents.is_primitive()) {
                throw Error("a dictionary of other values than strings, numbers and truths");
            }
            values[name.get<std::string>()] = std::move(contents);
        }
        if (!next().is("}")) {
            expect(",");
        }
    }
    return values;
}

JinjaValue JinjaExpression::name_or_call() {
    const std::string name = take_name();
    if (next().is("(")) {
        const std::vector<Argument> given = arguments();
        if (skips()) {
            return jinja_undefined();
        }
        const auto argument = [&](size_t i) { return i < given.size() ? given[i].value : jinja_undefined(); };
        if (name == "namespace") {
            JinjaValue fields = JinjaValue::object();
            for (const Argument& one : given) {
                if (one.value.is_object() || one.name.empty()) {
                    throw Error("a namespace of such values");
                }
                fields[one.name] = one.value;
            }
            return fields;
        }
        if (name == "range" && given.size() < 3) {
            return jinja_range(argument(0), argument(1));
        }
        if (name == "raise_exception") {
            const JinjaValue message = argument(0);
            throw Error(
                cat("the template's own error \"", message.is_string() ? message.get<std::string>() : "", "\""));
        }
        throw Error(cat("the function ", name));
    }
    if (name == "true" || name == "True" || name == "false" || name == "False") {
        return name == "true" || name == "True";
    }
    if (name == "none" || name == "None") {
        return nullptr;
    }
    const bool is_function = std::find(kJinjaFunctions.begin(), kJinjaFunctions.end(), name) != kJinjaFunctions.end();
    return is_function ? JinjaValue(true) : state_.find(name);
}

std::vector<JinjaExpression::Argument> JinjaExpression::arguments() {
    expect("(");
    std::vector<Argument> given;
    while (!take(")")) {
        std::string name;
        if (next().kind == JinjaToken::Kind::name && tokens_[place_ + 1].is("=")) {
            name = take_name();
            expect("=");
        }
        JinjaValue argument = value();
        given.push_back({std::move(name), std::move(argument)});
        if (!next().is(")")) {
            expect(",");
        }
    }
    return given;
}

}  // namespace accrue
