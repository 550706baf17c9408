#include <algorithm>
#include <utility>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/readers.h"

namespace accrue {
namespace {

// One stream of tokens cut into samples: sample i has the inputs [i*L, i*L + L) and as targets the same, one place
// further.
class StreamDataset final : public Dataset {
public:
    // Where each file begins in the stream, ascending.
    struct Source {
        std::string name;
        int64_t first_token;
    };

    StreamDataset(std::vector<int32_t> tokens, std::vector<Source> sources, int64_t sequence_length)
        : tokens_(std::move(tokens)), sources_(std::move(sources)), length_(sequence_length) {}

    [[nodiscard]] int64_t size() const override { return (targets() + length_ - 1) / length_; }

    [[nodiscard]] Sample sample(int64_t index) const override {
        const auto first = tokens_.begin() + index * length_;
        const int64_t count = weight(index);
        return {{first, first + count}, {first + 1, first + 1 + count}};
    }

    [[nodiscard]] int64_t weight(int64_t index) const override {
        return std::min(length_, targets() - index * length_);
    }

    [[nodiscard]] int64_t longest() const override { return std::min(length_, targets()); }

    [[nodiscard]] LargestToken largest_token() const override {
        const auto found = std::max_element(tokens_.begin(), tokens_.end());
        const int64_t place = found - tokens_.begin();
        // The stream's last token is no input: it stands behind the last place of the last sample.
        const int64_t sample = std::min(place / length_, size() - 1);
        const auto source = std::find_if(sources_.rbegin(), sources_.rend(),
                                         [&](const Source& candidate) { return candidate.first_token <= place; });
        return {*found, cat(source->name, ", sample ", sample, ", place ", place - sample * length_)};
    }

    [[nodiscard]] std::string fingerprint() const override { return fingerprint_of(*this); }

private:
    [[nodiscard]] int64_t targets() const { return static_cast<int64_t>(tokens_.size()) - 1; }

    std::vector<int32_t> tokens_;
    std::vector<Source> sources_;
    int64_t length_;
};

void check_sequence_length(int64_t sequence_length) {
    if (sequence_length < 1) {
        throw Error(cat("data.sequence_length is ", sequence_length, ", and at least 1 is needed"));
    }
}

}  // namespace

std::unique_ptr<Dataset> dataset_of_tokens(std::vector<int32_t> tokens, int64_t sequence_length, std::string name) {
    check_sequence_length(sequence_length);
    if (tokens.size() < 2) {
        throw Error(cat(name, " has ", tokens.size(), " tokens, and at least 2 are needed: an input and its target"));
    }
    std::vector<StreamDataset::Source> sources = {{std::move(name), 0}};
    return std::make_unique<StreamDataset>(std::move(tokens), std::move(sources), sequence_length);
}

std::unique_ptr<Dataset> open_text(const std::vector<std::filesystem::path>& files, int64_t sequence_length) {
    check_sequence_length(sequence_length);
    const ByteTokenizer tokenizer;
    std::vector<int32_t> tokens;
    std::vector<StreamDataset::Source> sources;
    for (const std::filesystem::path& file : files) {
        const std::string text = read_text(file);
        if (text.empty()) {
            throw Error(cat(file.string(), " is empty: a text file needs at least one byte"));
        }
        sources.push_back({file.string(), static_cast<int64_t>(tokens.size())});
        const std::vector<int32_t> document = tokenizer.encode(text);
        tokens.insert(tokens.end(), document.begin(), document.end());
        tokens.push_back(ByteTokenizer::kEnd);
    }
    return std::make_unique<StreamDataset>(std::move(tokens), std::move(sources), sequence_length);
}

}  // namespace accrue
