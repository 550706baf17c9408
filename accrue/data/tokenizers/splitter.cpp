#include <optional>
#include <utility>

#include "accrue/data/tokenizers/text_steps.h"
#include "accrue/data/tokenizers/word_scanner.h"

namespace accrue {
namespace {

void hand_on(const Piece& piece, size_t begin, size_t end, const PieceSink& sink) {
    if (begin < end) {
        sink({piece.text.substr(begin, end - begin), begin == 0 ? piece.start : PieceStart::inside});
    }
}

Splitter scanner_splitter(WordRule rule) {
    return [scanner = WordScanner(rule)](const Piece& piece, const PieceSink& sink) {
        for (size_t begin = 0; begin < piece.text.size();) {
            const size_t end = scanner.word_end(piece.text, begin);
            hand_on(piece, begin, end, sink);
            begin = end;
        }
    };
}

void split_by_pattern(const Pattern& pattern, KeepOfSplit keep, const Piece& piece, const PieceSink& sink) {
    // The pattern sees a stand-in for bytes that are no UTF-8; the parts are cut from the text itself.
    const std::string stand_in = is_utf8(piece.text) ? std::string() : with_invalid_bytes_replaced(piece.text);
    size_t taken = 0;
    for (const Pattern::Match& match : pattern.find_all(stand_in.empty() ? piece.text : stand_in)) {
        if (keep != KeepOfSplit::matches) {
            hand_on(piece, taken, match.begin, sink);
        }
        if (keep != KeepOfSplit::gaps) {
            hand_on(piece, match.begin, match.end, sink);
        }
        taken = match.end;
    }
    if (keep != KeepOfSplit::matches) {
        hand_on(piece, taken, piece.text.size(), sink);
    }
}

std::string marked(const Piece& piece, const std::string& mark, PrependMark prepend) {
    std::string text;
    text.reserve(piece.text.size() * 3 / 2 + mark.size());
    for (const char letter : piece.text) {
        if (letter == ' ') {
            text += mark;
        } else {
            text.push_back(letter);
        }
    }
    const bool wanted = prepend == PrependMark::always
                            ? piece.start != PieceStart::later_part
                            : prepend == PrependMark::first_piece && piece.start == PieceStart::text_begin;
    return wanted && !text.starts_with(mark) ? mark + text : text;
}

void run_from(const std::vector<Splitter>& splitters, size_t index, const Piece& piece, const PieceSink& sink) {
    if (index == splitters.size()) {
        sink(piece);
    } else if (index + 1 == splitters.size()) {
        splitters[index](piece, sink);
    } else {
        splitters[index](piece, [&](const Piece& part) { run_from(splitters, index + 1, part, sink); });
    }
}

}  // namespace

Splitter pattern_splitter(std::string_view pattern, KeepOfSplit keep) {
    // These rules leave no gaps, so keeping matches keeps everything.
    if (const std::optional<WordRule> rule = word_rule_of(pattern); rule && keep != KeepOfSplit::gaps) {
        return scanner_splitter(*rule);
    }
    return [compiled = std::make_shared<const Pattern>(pattern), keep](const Piece& piece, const PieceSink& sink) {
        split_by_pattern(*compiled, keep, piece, sink);
    };
}

Splitter prefix_space_splitter() {
    return [](const Piece& piece, const PieceSink& sink) {
        if (piece.text.starts_with(' ') || piece.start == PieceStart::later_part) {
            sink(piece);
        } else {
            sink({std::string(" ").append(piece.text), piece.start});
        }
    };
}

Splitter mark_splitter(std::string mark, PrependMark prepend, CutAtMarks cut) {
    return [mark = std::move(mark), prepend, cut](const Piece& piece, const PieceSink& sink) {
        const std::string text = marked(piece, mark, prepend);
        const Piece whole = {text, piece.start};
        size_t begin = 0;
        while (cut == CutAtMarks::yes) {
            const size_t next =
                text.find(mark, begin + (text.compare(begin, mark.size(), mark) == 0 ? mark.size() : 0));
            if (next == std::string::npos) {
                break;
            }
            hand_on(whole, begin, next, sink);
            begin = next;
        }
        hand_on(whole, begin, text.size(), sink);
    };
}

void split_by_all(const std::vector<Splitter>& splitters, const Piece& piece, const PieceSink& sink) {
    run_from(splitters, 0, piece, sink);
}

}  // namespace accrue
