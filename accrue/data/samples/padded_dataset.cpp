#include <algorithm>
#include <utility>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/data/samples/cached_dataset.h"

namespace accrue {
namespace {

// Each document with its end is one sample.
class PaddedDataset final : public Dataset {
public:
    PaddedDataset(DocumentSelection documents, const SampleOptions& options)
        : documents_(std::move(documents)), options_(options), ends_(options.end_token ? 1 : 0) {
        check_sample_options(options);
        const bool is_cut = documents_.facts().longest_document + ends_ > options_.sequence_length + 1;
        // A document that ends in a counted token within its sample counts something: most often nobody has to look.
        if (is_cut || ends_ == 0) {
            look_at_documents();
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
    [[nodiscard]] LeftOut left_out() const override { return left_out_; }
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

    void look_at_documents() {
        for (int64_t index = 0; index < size(); ++index) {
            const int64_t cut_end = ends_ == 1 && !has_end(index) ? 1 : 0;
            const int64_t cut = documents_.cache().counted_in({kept(index).end, document(index).end}) + cut_end;
            left_out_.cut_documents += cut > 0 ? 1 : 0;
            left_out_.cut_tokens += cut;
            left_out_.uncounted_samples += weight(index) == 0 ? 1 : 0;
        }
        if (left_out_.uncounted_samples < size()) {
            return;
        }
        const std::string name = documents_.cache().name_of(documents_.document(0));
        if (left_out_.cut_tokens == 0) {
            fail_uncounted(name);
        }
        throw Error(cat("data.sequence_length is ", options_.sequence_length, ", but in ", name,
                        " and the documents after it no counted token stands within so many: all ",
                        left_out_.cut_tokens, " are cut off. The longest document has ",
                        documents_.facts().longest_document,
                        " tokens: set data.sequence_length to that, or data.layout to \"packed\"."));
    }

    DocumentSelection documents_;
    SampleOptions options_;
    int64_t ends_;
    LeftOut left_out_;
};

}  // namespace

std::unique_ptr<Dataset> padded_dataset(DocumentSelection documents, const SampleOptions& options) {
    return std::make_unique<PaddedDataset>(std::move(documents), options);
}

}  // namespace accrue
