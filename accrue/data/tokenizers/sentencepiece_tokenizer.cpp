#include <algorithm>

#include <sentencepiece_processor.h>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/data/tokenizers/sentencepiece_bpe.h"
#include "accrue/data/tokenizers/sentencepiece_model.h"
#include "accrue/data/tokenizers/tokenizer_files.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

using Library = sentencepiece::SentencePieceProcessor;

void check(const sentencepiece::util::Status& status) {
    if (!status.ok()) {
        throw Error(cat("the SentencePiece library failed: ", status.ToString()));
    }
}

// The library says what is wrong in a status, or throws where a part of it does.
void load(Library& library, std::string_view contents, const std::string& name) {
    std::string fault;
    try {
        if (const auto status = library.LoadFromSerializedProto(contents); !status.ok()) {
            fault = status.ToString();
        }
    } catch (const std::exception& thrown) {
        fault = thrown.what();
    }
    if (!fault.empty()) {
        throw Error(cat(name, " is neither a tokenizer.json nor a list of ranks nor a SentencePiece model: ", fault));
    }
}

std::vector<int32_t> encode_with(const Library& library, std::string_view text) {
    std::vector<int> pieces;
    check(library.Encode(text, &pieces));
    return {pieces.begin(), pieces.end()};
}

// Encodes the later part of a text, by the library. Where it removes extra spaces, a space that the part begins with
// comes back as the mark before the text; otherwise there must be no such mark.
class LaterParts {
public:
    LaterParts(const SentencePieceModel& model, std::string_view contents, const std::string& name)
        : keeps_mark_(model.remove_extra_spaces) {
        if (model.add_prefix) {
            load(unmarked_.emplace(), without_prefix(contents), name);
        }
    }

    [[nodiscard]] std::vector<int32_t> encode(const Library& library, std::string_view text) const {
        const bool begins_with_space = !text.empty() && is_white_space(character_at(text, 0).value);
        const bool marked = !unmarked_ || (keeps_mark_ && begins_with_space);
        return encode_with(marked ? library : *unmarked_, text);
    }

private:
    bool keeps_mark_;
    std::optional<Library> unmarked_;
};

class SentencePieceTokenizer final : public Tokenizer {
public:
    SentencePieceTokenizer(std::string_view contents, const std::string& name)
        : fingerprint_(hash_of(std::as_bytes(std::span(contents)))) {
        load(library_, contents, name);
        const SentencePieceModel model = read_sentencepiece_model(contents, name);
        if (std::ssize(model.pieces) != library_.GetPieceSize()) {
            throw Error(cat(name, " holds ", model.pieces.size(), " pieces, of which the SentencePiece library reads ",
                            library_.GetPieceSize(), ": the file is damaged. Download it again."));
        }
        pairs_ = SentencePieceBpe::of(model);
        if (!pairs_) {
            later_parts_.emplace(model, contents, name);
        }
    }

    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, Special special) const override {
        std::vector<int32_t> ids = encode_plain(text);
        if (special == Special::with && library_.bos_id() >= 0) {
            ids.insert(ids.begin(), library_.bos_id());
        }
        return ids;
    }

    // Neither the library nor our own pairs read control symbols in a text.
    [[nodiscard]] std::vector<int32_t> encode_plain(std::string_view text) const override {
        return pairs_ ? pairs_->encode(text, TextStart::begins) : encode_with(library_, text);
    }
    [[nodiscard]] std::vector<int32_t> encode_later_part(std::string_view text) const override {
        return pairs_ ? pairs_->encode(text, TextStart::continues) : later_parts_->encode(library_, text);
    }

    [[nodiscard]] std::string decode(std::span<const int32_t> ids, Special special) const override {
        std::string text;
        std::vector<int> run;
        const auto flush = [&] {
            std::string part;
            check(library_.Decode(run, &part));
            text += part;
            run.clear();
        };
        for (const int32_t id : ids) {
            if (!has(id)) {
                continue;
            }
            if (!library_.IsControl(id)) {
                run.push_back(id);
            } else if (special == Special::with) {
                flush();
                text += library_.IdToPiece(id);
            }
        }
        flush();
        return text;
    }

    [[nodiscard]] int64_t vocabulary() const override { return library_.GetPieceSize(); }
    [[nodiscard]] std::optional<int32_t> end_of_document() const override {
        return library_.eos_id() >= 0 ? std::optional<int32_t>(library_.eos_id()) : std::nullopt;
    }
    [[nodiscard]] std::string token_text(int32_t id) const override {
        return has(id) ? library_.IdToPiece(id) : std::string();
    }
    [[nodiscard]] std::string fingerprint() const override { return fingerprint_; }

private:
    [[nodiscard]] bool has(int32_t id) const { return id >= 0 && id < library_.GetPieceSize(); }

    // Reads the model and decodes; also encodes what our own pairs do not cover.
    Library library_;
    std::optional<SentencePieceBpe> pairs_;
    std::optional<LaterParts> later_parts_;
    std::string fingerprint_;
};

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_of_sentencepiece(std::string_view contents, const std::string& name) {
    return std::make_unique<SentencePieceTokenizer>(contents, name);
}

}  // namespace accrue
