#include <algorithm>
#include <utility>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/data/cached_dataset.h"

namespace accrue {
namespace {

// Each document with its end is one sample.
class PaddedDataset final : public Dataset {
public:
    PaddedDataset(DocumentSelection documents, const SampleOptions& options)
        : documents_(std::move(documents)), options_(options), ends_(options.end_token ? 1 : 0) {
        check_sample_options(options);
        if (ends_ == 0 && (documents_.facts().counted == 0 || documents_.facts().longest_document < 2)) {
            throw Error(cat(documents_.cache().name_of(documents_.document(0)),
                            " and the documents after it count nothing: none has an input and a counted target"));
        }
    }

    [[nodiscard]] int64_t size() const override { return documents_.size(); }

    [[nodiscard]] Sample sample(int64_t index) const override {
        const TokenCache& cache = documents_.cache();
        const TokenRange tokens = kept(index);
        const bool ended = has_end(index);
        const auto count = static_cast<size_t>(tokens.size());
        std::vector<int32_t> ids(count + (ended ? 1 : 0));
        std::vector<uint8_t> counted(ids.size(), 1);
        cache.copy_ids(tokens, std::span(ids).first(count));
        for (size_t i = 0; i < count && !cache.all_counted(); ++i) {
            counted[i] = cache.counted(tokens.begin + static_cast<int64_t>(i)) ? 1 : 0;
        }
        if (ended) {
            ids.back() = *options_.end_token;
        }
        std::vector<int32_t> starts;
        if (options_.reset_attention) {
            starts.push_back(0);
        }
        return sample_of(std::move(ids), counted, std::move(starts));
    }

    [[nodiscard]] int64_t weight(int64_t index) const override {
        const TokenRange tokens = kept(index);
        return documents_.cache().counted_in({tokens.begin + 1, tokens.end}) + (has_end(index) ? 1 : 0);
    }

    [[nodiscard]] int64_t longest() const override {
        return std::min(options_.sequence_length, documents_.facts().longest_document + ends_ - 1);
    }
    [[nodiscard]] LargestToken largest_token() const override { return largest_of(documents_, options_); }
    [[nodiscard]] std::string fingerprint() const override { return fingerprint_of(documents_, options_, "padded"); }

private:
    [[nodiscard]] TokenRange document(int64_t index) const {
        return documents_.cache().document(documents_.document(index));
    }

    // The inputs and one target more.
    [[nodiscard]] TokenRange kept(int64_t index) const {
        const TokenRange tokens = document(index);
        return {tokens.begin, std::min(tokens.end, tokens.begin + options_.sequence_length + 1)};
    }

    [[nodiscard]] bool has_end(int64_t index) const {
        return ends_ == 1 && document(index).size() <= options_.sequence_length;
    }

    DocumentSelection documents_;
    SampleOptions options_;
    int64_t ends_;
};

}  // namespace

std::unique_ptr<Dataset> padded_dataset(DocumentSelection documents, const SampleOptions& options) {
    return std::make_unique<PaddedDataset>(std::move(documents), options);
}

}  // namespace accrue
