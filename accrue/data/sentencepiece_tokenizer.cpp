#include <algorithm>

#include <sentencepiece_processor.h>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/data/tokenizer_files.h"

namespace accrue {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
public:
    SentencePieceTokenizer(std::string_view contents, const std::string& name)
        : fingerprint_(hash_of(std::as_bytes(std::span(contents)))) {
        const auto status = model_.LoadFromSerializedProto(contents);
        if (!status.ok()) {
            throw Error(cat(name, " is neither a tokenizer.json nor a list of ranks nor a SentencePiece model: ",
                            status.ToString()));
        }
    }

    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, Special special) const override {
        std::vector<int> pieces;
        check(model_.Encode(text, &pieces));
        std::vector<int32_t> ids;
        ids.reserve(pieces.size() + 1);
        if (special == Special::with && model_.bos_id() >= 0) {
            ids.push_back(model_.bos_id());
        }
        ids.insert(ids.end(), pieces.begin(), pieces.end());
        return ids;
    }

    // The library never reads control symbols in a text.
    [[nodiscard]] std::vector<int32_t> encode_plain(std::string_view text) const override {
        return encode(text, Special::without);
    }

    [[nodiscard]] std::string decode(std::span<const int32_t> ids, Special special) const override {
        std::string text;
        std::vector<int> run;
        const auto flush = [&] {
            std::string part;
            check(model_.Decode(run, &part));
            text += part;
            run.clear();
        };
        for (const int32_t id : ids) {
            if (!has(id)) {
                continue;
            }
            if (!model_.IsControl(id)) {
                run.push_back(id);
            } else if (special == Special::with) {
                flush();
                text += model_.IdToPiece(id);
            }
        }
        flush();
        return text;
    }

    [[nodiscard]] int64_t vocabulary() const override { return model_.GetPieceSize(); }
    [[nodiscard]] std::optional<int32_t> end_of_document() const override {
        return model_.eos_id() >= 0 ? std::optional<int32_t>(model_.eos_id()) : std::nullopt;
    }
    [[nodiscard]] std::string token_text(int32_t id) const override {
        return has(id) ? model_.IdToPiece(id) : std::string();
    }
    [[nodiscard]] std::string fingerprint() const override { return fingerprint_; }

private:
    [[nodiscard]] bool has(int32_t id) const { return id >= 0 && id < model_.GetPieceSize(); }

    static void check(const sentencepiece::util::Status& status) {
        if (!status.ok()) {
            throw Error(cat("the SentencePiece library failed: ", status.ToString()));
        }
    }

    sentencepiece::SentencePieceProcessor model_;
    std::string fingerprint_;
};

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_of_sentencepiece(std::string_view contents, const std::string& name) {
    return std::make_unique<SentencePieceTokenizer>(contents, name);
}

}  // namespace accrue
