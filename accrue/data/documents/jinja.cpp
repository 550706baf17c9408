#include "accrue/data/documents/jinja.h"

#include <utility>

#include "accrue/base/error.h"
#include "accrue/data/documents/jinja_parts.h"

namespace accrue {
namespace {

// Far more than any chat template needs for a few short messages.
constexpr int64_t kMostSteps = 20'000;
constexpr size_t kMostBytes = size_t{1} << 20;
constexpr int kDeepestBlock = 50;

// Runs the pieces of a template.
class JinjaRun {
public:
    JinjaRun(std::vector<JinjaPiece> pieces, const JinjaValue& variables)
        : pieces_(std::move(pieces)), state_(variables) {}

    [[nodiscard]] std::string output() {
        run(0, pieces_.size());
        return std::move(output_);
    }

private:
    // The first piece from `place` on that goes on with the block around it or closes it.
    struct BlockPart {
        size_t place;
        bool closes;
    };
    [[nodiscard]] BlockPart next_part(size_t place) const;

    void run(size_t begin, size_t end);
    // Macros are known only as something that nobody calls.
    [[nodiscard]] size_t behind_macro(size_t place) const;
    // Each runs a block whose first piece is at `place` and returns the place behind it.
    size_t run_if(size_t place);
    size_t run_for(size_t place);
    void run_set(const std::vector<JinjaToken>& tokens);
    void run_body(const JinjaValue& list, const std::string& name, size_t begin, size_t end);

    [[nodiscard]] JinjaExpression expression(size_t piece, size_t first_token) {
        return {pieces_[piece].tokens, first_token, state_};
    }
    [[nodiscard]] JinjaValue whole_value(const std::vector<JinjaToken>& tokens, size_t first_token) {
        JinjaExpression reader(tokens, first_token, state_);
        JinjaValue value = reader.value();
        reader.expect_end();
        return value;
    }

    std::vector<JinjaPiece> pieces_;
    JinjaState state_;
    std::string output_;
    int depth_ = 0;
};

JinjaRun::BlockPart JinjaRun::next_part(size_t place) const {
    int depth = 0;
    for (; place < pieces_.size(); ++place) {
        const JinjaPiece& piece = pieces_[place];
        const bool closes = piece.begins_with("endif") || piece.begins_with("endfor");
        if (depth == 0 && (closes || piece.begins_with("elif") || piece.begins_with("else"))) {
            return {place, closes};
        }
        depth += piece.begins_with("if") || piece.begins_with("for") ? 1 : (closes ? -1 : 0);
    }
    throw Error("a block without an end");
}

void JinjaRun::run(size_t begin, size_t end) {
    if (++depth_ > kDeepestBlock) {
        throw Error("blocks that are nested too deep");
    }
    for (size_t place = begin; place < end;) {
        const JinjaPiece& piece = pieces_[place];
        state_.spend(piece.text.size());
        if (piece.begins_with("if")) {
            place = run_if(place);
            continue;
        }
        if (piece.begins_with("for")) {
            place = run_for(place);
            continue;
        }
        if (piece.begins_with("macro")) {
            place = behind_macro(place);
            continue;
        }
        if (piece.kind == JinjaPiece::Kind::text) {
            output_ += piece.text;
        } else if (piece.kind == JinjaPiece::Kind::output) {
            const std::string text = jinja_text(whole_value(piece.tokens, 0));
            state_.spend(text.size());
            output_ += text;
        } else if (piece.begins_with("set")) {
            run_set(piece.tokens);
        } else if (!piece.begins_with("generation") && !piece.begins_with("endgeneration")) {
            throw Error(cat("the statement ", piece.tokens.front().text));
        }
        ++place;
    }
    --depth_;
}

size_t JinjaRun::behind_macro(size_t place) const {
    while (place < pieces_.size() && !pieces_[place].begins_with("endmacro")) {
        ++place;
    }
    return place + 1;
}

size_t JinjaRun::run_if(size_t place) {
    bool done = false;
    for (bool is_last = false; !is_last;) {
        const JinjaPiece& head = pieces_[place];
        const bool holds = !done && (head.begins_with("else") || is_true(whole_value(head.tokens, 1)));
        const BlockPart behind = next_part(place + 1);
        if (holds) {
            run(place + 1, behind.place);
            done = true;
        }
        place = behind.place;
        is_last = behind.closes;
    }
    return place + 1;
}

size_t JinjaRun::run_for(size_t place) {
    const BlockPart behind = next_part(place + 1);
    const std::vector<JinjaToken>& tokens = pieces_[place].tokens;
    if (!behind.closes || tokens.size() < 4 || tokens[1].kind != JinjaToken::Kind::name || !tokens[2].is("in")) {
        throw Error("a for that is not \"for NAME in LIST\"");
    }
    JinjaExpression reader = expression(place, 3);
    const JinjaValue list = reader.value_without_if();
    reader.expect_end();
    if (!list.is_array()) {
        throw Error(cat("a for over a value that is ", list.is_discarded() ? "undefined" : list.type_name()));
    }
    run_body(list, tokens[1].text, place + 1, behind.place);
    return behind.place + 1;
}

void JinjaRun::run_body(const JinjaValue& list, const std::string& name, size_t begin, size_t end) {
    for (size_t index = 0; index < list.size(); ++index) {
        state_.open_scope();
        state_.set(name, list[index]);
        JinjaValue loop = {{"index", index + 1},
                           {"index0", index},
                           {"first", index == 0},
                           {"last", index + 1 == list.size()},
                           {"length", list.size()}};
        if (index > 0) {
            loop["previtem"] = list[index - 1];
        }
        if (index + 1 < list.size()) {
            loop["nextitem"] = list[index + 1];
        }
        state_.set("loop", std::move(loop));
        run(begin, end);
        state_.close_scope();
    }
}

void JinjaRun::run_set(const std::vector<JinjaToken>& tokens) {
    const auto is_name = [&](size_t place) {
        return place < tokens.size() && tokens[place].kind == JinjaToken::Kind::name;
    };
    if (is_name(1) && tokens[2].is("=")) {
        state_.set(tokens[1].text, whole_value(tokens, 3));
    } else if (is_name(1) && tokens[2].is(".") && is_name(3) && tokens[4].is("=")) {
        state_.set_member(tokens[1].text, tokens[3].text, whole_value(tokens, 5));
    } else {
        throw Error("a set that is not \"set NAME = VALUE\"");
    }
}

}  // namespace

JinjaValue JinjaState::find(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
        if (scope->contains(name)) {
            return (*scope)[name];
        }
    }
    return jinja_undefined();
}

void JinjaState::set(const std::string& name, JinjaValue value) {
    scopes_.back()[name] = std::move(value);
}

void JinjaState::set_member(const std::string& name, const std::string& member, JinjaValue value) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
        if (scope->contains(name) && (*scope)[name].is_object() && !value.is_object()) {
            (*scope)[name][member] = std::move(value);
            return;
        }
    }
    throw Error(cat("a set of ", name, ".", member, ", which is no namespace, or not of such values"));
}

void JinjaState::spend(size_t bytes) {
    bytes_ += bytes;
    if (++steps_ > kMostSteps || bytes_ > kMostBytes) {
        throw Error("more work than a chat template should be");
    }
}

std::string render_jinja(std::string_view source, const nlohmann::json& variables) {
    return JinjaRun(cut_jinja(source), variables).output();
}

}  // namespace accrue
