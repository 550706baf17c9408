#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace accrue {

// The inside of jinja.h: a template as pieces, words of an expression, values.

// A word of an expression or a statement.
struct JinjaToken {
    enum class Kind { name, number, string, sign, end };
    Kind kind = Kind::end;
    std::string text;  // of a string without its quotes and escapes

    [[nodiscard]] bool is(std::string_view word) const {
        return (kind == Kind::name || kind == Kind::sign) && text == word;
    }
};

// A part of a template: text to be written, {{ an expression }} or {% a statement %}.
struct JinjaPiece {
    enum class Kind { text, output, statement };
    Kind kind = Kind::text;
    std::string text;
    std::vector<JinjaToken> tokens = {};  // with an end behind them

    [[nodiscard]] bool begins_with(std::string_view word) const {
        return kind == Kind::statement && tokens.front().is(word);
    }
};

// Cuts a template; white space that its marks take away is gone.
[[nodiscard]] std::vector<JinjaPiece> cut_jinja(std::string_view source);

// Undefined is a discarded value.
using JinjaValue = nlohmann::json;
[[nodiscard]] inline JinjaValue jinja_undefined() {
    return JinjaValue(JinjaValue::value_t::discarded);  // braces would make a list
}
[[nodiscard]] bool is_true(const JinjaValue& value);
// No list, and none inside: what lists may hold, so that no value grows beyond what its template spells out.
[[nodiscard]] bool is_flat(const JinjaValue& value);
// As {{ }} writes it.
[[nodiscard]] std::string jinja_text(const JinjaValue& value);
// + - * and %; and == and its like, with "in" and "not in".
[[nodiscard]] JinjaValue jinja_computed(const std::string& sign, const JinjaValue& left, const JinjaValue& right);
[[nodiscard]] bool jinja_compared(const std::string& sign, const JinjaValue& left, const JinjaValue& right);
// value | name(argument), value.name(argument), value[index], value[a:b:c], range(first, second).
[[nodiscard]] JinjaValue jinja_filtered(const std::string& name, const JinjaValue& value, const JinjaValue& argument);
[[nodiscard]] JinjaValue jinja_method(const JinjaValue& of, const std::string& name, const JinjaValue& argument);
[[nodiscard]] JinjaValue jinja_element(const JinjaValue& of, const JinjaValue& index);
[[nodiscard]] JinjaValue jinja_slice(const JinjaValue& list, const std::array<JinjaValue, 3>& bounds);
[[nodiscard]] JinjaValue jinja_range(const JinjaValue& first, const JinjaValue& second);

// The variables, the innermost scope last; and how much more a template may do, so that none runs for ever.
class JinjaState {
public:
    explicit JinjaState(JinjaValue variables) { scopes_.push_back(std::move(variables)); }

    [[nodiscard]] JinjaValue find(const std::string& name) const;
    // In the innermost scope; a member of a namespace wherever that is.
    void set(const std::string& name, JinjaValue value);
    void set_member(const std::string& name, const std::string& member, JinjaValue value);
    void open_scope() { scopes_.push_back(JinjaValue::object()); }
    void close_scope() { scopes_.pop_back(); }
    // One more step, and a text of so many bytes; an error where it is too much.
    void spend(size_t bytes = 0);

private:
    std::vector<JinjaValue> scopes_;
    int64_t steps_ = 0;
    size_t bytes_ = 0;
};

// Evaluates the words of an expression from a place on.
class JinjaExpression {
public:
    JinjaExpression(const std::vector<JinjaToken>& tokens, size_t place, JinjaState& state)
        : tokens_(tokens), place_(place), state_(state) {}

    [[nodiscard]] JinjaValue value();
    // A value without "if" behind it, as a loop has it.
    [[nodiscard]] JinjaValue value_without_if() { return either(); }
    [[nodiscard]] const JinjaToken& next() const { return tokens_[place_]; }
    [[nodiscard]] size_t place() const { return place_; }
    // Nothing more may follow.
    void expect_end() const;

private:
    struct Argument {
        std::string name;  // of name=value
        JinjaValue value;
    };

    bool take(std::string_view sign);
    void expect(std::string_view sign);
    std::string take_name();
    [[nodiscard]] bool skips() const { return skipping_ > 0; }

    JinjaValue either();
    JinjaValue both();
    JinjaValue negation();
    JinjaValue comparison();
    JinjaValue sum();
    JinjaValue joined();
    JinjaValue product();
    JinjaValue signed_value();
    JinjaValue with_filters();
    JinjaValue with_members();
    JinjaValue primary();
    JinjaValue list(std::string_view end);
    JinjaValue dictionary();
    JinjaValue name_or_call();
    JinjaValue member(const JinjaValue& of);
    JinjaValue element(const JinjaValue& of);
    std::vector<Argument> arguments();
    bool test(const JinjaValue& value);

    template <class Action>
    JinjaValue skipping(Action action) {
        ++skipping_;
        action();
        --skipping_;
        return jinja_undefined();
    }

    const std::vector<JinjaToken>& tokens_;
    size_t place_;
    JinjaState& state_;
    // Words that are read but not evaluated, because a part before them decides.
    int skipping_ = 0;
    int depth_ = 0;
};

}  // namespace accrue
