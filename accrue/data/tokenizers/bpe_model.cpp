#include "accrue/data/tokenizers/bpe_model.h"

#include <algorithm>

#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

// Collects unknown characters, which may become one token, until something known follows.
class Unknowns {
public:
    Unknowns(int32_t unknown, bool fuse, std::vector<int32_t>& ids) : unknown_(unknown), fuse_(fuse), ids_(ids) {}

    void add() {
        if (unknown_ >= 0) {
            if (waiting_ && !fuse_) {
                ids_.push_back(unknown_);
            }
            waiting_ = true;
        }
    }

    void flush() {
        if (waiting_) {
            ids_.push_back(unknown_);
            waiting_ = false;
        }
    }

private:
    int32_t unknown_;
    bool fuse_;
    std::vector<int32_t>& ids_;
    bool waiting_ = false;
};

}  // namespace

BpeModel::BpeModel(const BpeParts& parts)
    : symbols_(parts.symbols),
      unknown_(parts.unknown),
      fuse_unknown_(parts.fuse_unknown),
      byte_tokens_(parts.byte_tokens),
      tokens_(parts.tokens) {
    bytes_.fill(-1);
    fill_symbols(parts);
    const std::vector<int32_t> symbols = all_symbols();
    merges_ = MergeTable(parts.rules, symbols);
    size_t ids_end = 0;
    for (const auto& [bytes, id] : parts.tokens) {
        ids_end = std::max(ids_end, static_cast<size_t>(id) + 1);
    }
    whole_.assign(ids_end, parts.whole_pieces_first);
    if (parts.whole_pieces_first) {
        return;
    }
    Merger merger(merges_);
    std::vector<int32_t> ids;
    for (const auto& [bytes, id] : parts.tokens) {
        ids.clear();
        append_symbols(bytes, ids);
        merger.merge(ids, 0);
        whole_[static_cast<size_t>(id)] = ids.size() == 1 && ids.front() == id;
    }
}

void BpeModel::fill_symbols(const BpeParts& parts) {
    near_.assign(symbols_ == BpeParts::Symbols::characters ? kNearCharacters : 0, -1);
    for (const auto& [bytes, id] : parts.tokens) {
        if (bytes.empty()) {
            continue;
        }
        if (symbols_ == BpeParts::Symbols::bytes) {
            if (bytes.size() == 1) {
                bytes_[static_cast<unsigned char>(bytes.front())] = id;
            }
            continue;
        }
        const Character character = character_at(bytes, 0);
        if (character.value == Character::kInvalid || character.size != bytes.size()) {
            continue;
        }
        if (character.value < kNearCharacters) {
            near_[character.value] = id;
        } else {
            far_[character.value] = id;
        }
    }
}

std::vector<int32_t> BpeModel::all_symbols() const {
    std::vector<int32_t> symbols = byte_tokens_;
    const auto add = [&](int32_t id) {
        if (id >= 0) {
            symbols.push_back(id);
        }
    };
    std::for_each(bytes_.begin(), bytes_.end(), add);
    std::for_each(near_.begin(), near_.end(), add);
    for (const auto& [character, id] : far_) {
        add(id);
    }
    add(unknown_);
    return symbols;
}

int32_t BpeModel::symbol_of(char32_t character) const {
    if (character < kNearCharacters) {
        return near_[character];
    }
    const auto found = far_.find(character);
    return found == far_.end() ? -1 : found->second;
}

void BpeModel::append(std::string_view piece, Merger& merger, std::vector<int32_t>& ids) const {
    if (piece.empty()) {
        return;
    }
    const int32_t whole = tokens_.find(piece);
    if (whole >= 0 && whole_[static_cast<size_t>(whole)]) {
        ids.push_back(whole);
        return;
    }
    const size_t first = ids.size();
    append_symbols(piece, ids);
    merger.merge(ids, first);
}

void BpeModel::append_symbols(std::string_view piece, std::vector<int32_t>& ids) const {
    if (symbols_ == BpeParts::Symbols::bytes) {
        append_bytes(piece, ids);
    } else {
        append_characters(piece, ids);
    }
}

void BpeModel::append_bytes(std::string_view piece, std::vector<int32_t>& ids) const {
    Unknowns unknowns(unknown_, fuse_unknown_, ids);
    for (const char letter : piece) {
        const int32_t id = bytes_[static_cast<unsigned char>(letter)];
        if (id >= 0) {
            unknowns.flush();
            ids.push_back(id);
        } else {
            unknowns.add();
        }
    }
    unknowns.flush();
}

void BpeModel::append_characters(std::string_view piece, std::vector<int32_t>& ids) const {
    Unknowns unknowns(unknown_, fuse_unknown_, ids);
    for (size_t place = 0; place < piece.size();) {
        const Character character = character_at(piece, place);
        const int32_t id = symbol_of(character.value);
        if (id >= 0) {
            unknowns.flush();
            ids.push_back(id);
        } else if (!byte_tokens_.empty()) {
            for (size_t i = 0; i < character.size; ++i) {
                ids.push_back(byte_tokens_[static_cast<unsigned char>(piece[place + i])]);
            }
        } else {
            unknowns.add();
        }
        place += character.size;
    }
    unknowns.flush();
}

}  // namespace accrue
