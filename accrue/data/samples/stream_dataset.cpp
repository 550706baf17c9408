#include <algorithm>
#include <utility>

#include "accrue/base/error.h"
#include "accrue/data/samples/dataset.h"

namespace accrue {
namespace {

// One stream of tokens cut into samples: sample i has the inputs [i*L, i*L + L) and as targets the same, one place
// further.
class StreamDataset final : public Dataset {
public:
    StreamDataset(std::vector<int32_t> tokens, int64_t sequence_length, std::string name)
        : tokens_(std::move(tokens)), length_(sequence_length), name_(std::move(name)) {}

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
        return {*found, cat(name_, ", sample ", sample, ", place ", place - sample * length_)};
    }

    [[nodiscard]] std::string fingerprint() const override { return fingerprint_of(*this); }

private:
    [[nodiscard]] int64_t targets() const { return static_cast<int64_t>(tokens_.size()) - 1; }

    std::vector<int32_t> tokens_;
    int64_t length_;
    std::string name_;
};

}  // namespace

std::unique_ptr<Dataset> dataset_of_tokens(std::vector<int32_t> tokens, int64_t sequence_length, std::string name) {
    if (sequence_length < 1) {
        throw Error(cat("data.sequence_length is ", sequence_length, ", and at least 1 is needed"));
    }
    if (tokens.size() < 2) {
        throw Error(cat(name, " has ", tokens.size(), " tokens, and at least 2 are needed: an input and its target"));
    }
    return std::make_unique<StreamDataset>(std::move(tokens), sequence_length, std::move(name));
}

}  // namespace accrue
