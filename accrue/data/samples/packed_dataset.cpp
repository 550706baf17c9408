#include <algorithm>
#include <utility>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/data/samples/cached_dataset.h"

namespace accrue {
namespace {

// The documents as one stream, each with its end; sample i has the inputs [i*L, i*L + L) of it and as targets the same,
// one place further.
class PackedDataset final : public Dataset {
public:
    PackedDataset(DocumentSelection documents, const SampleOptions& options)
        : documents_(std::move(documents)),
          options_(options),
          ends_(options.end_token ? 1 : 0),
          targets_(stream_begin(documents_.size()) - 1) {
        check_sample_options(options);
        if (targets_ < 1) {
            throw Error(cat(documents_.cache().name_of(documents_.document(0)), " is all there is and has ",
                            targets_ + 1, " token, and at least 2 are needed: an input and its target"));
        }
        check_counts();
    }

    [[nodiscard]] int64_t size() const override {
        return (targets_ + options_.sequence_length - 1) / options_.sequence_length;
    }

    [[nodiscard]] Sample sample(int64_t index) const override {
        const TokenCache& cache = documents_.cache();
        const int64_t begin = index * options_.sequence_length;
        const int64_t count = inputs(index) + 1;
        std::vector<int32_t> ids(static_cast<size_t>(count));
        std::vector<uint8_t> counted(static_cast<size_t>(count), 1);
        std::vector<int32_t> starts;
        if (options_.reset_attention) {
            starts.push_back(0);
        }
        for_stretches(begin, begin + count, [&](const Stretch& stretch) {
            const auto place = static_cast<size_t>(stretch.place - begin);
            const auto tokens = static_cast<size_t>(stretch.tokens.size());
            cache.copy_ids(stretch.tokens, std::span(ids).subspan(place, tokens));
            for (size_t i = 0; i < tokens && !cache.all_counted(); ++i) {
                counted[place + i] = cache.counted(stretch.tokens.begin + static_cast<int64_t>(i)) ? 1 : 0;
            }
            if (stretch.ends) {
                ids[place + tokens] = *options_.end_token;
            }
            if (options_.reset_attention && stretch.begins && place > 0) {
                counted[place] = 0;
                starts.push_back(static_cast<int32_t>(place));
            }
        });
        return sample_of(std::move(ids), counted, std::move(starts));
    }

    [[nodiscard]] int64_t weight(int64_t index) const override {
        const TokenCache& cache = documents_.cache();
        if (cache.all_counted() && !options_.reset_attention) {
            return inputs(index);
        }
        const int64_t begin = index * options_.sequence_length + 1;
        int64_t weight = 0;
        for_stretches(begin, begin + inputs(index), [&](const Stretch& stretch) {
            weight += cache.counted_in(stretch.tokens) + (stretch.ends ? 1 : 0);
            if (options_.reset_attention && stretch.begins && cache.counted(stretch.tokens.begin)) {
                --weight;
            }
        });
        return weight;
    }

    [[nodiscard]] int64_t longest() const override { return std::min(options_.sequence_length, targets_); }
    [[nodiscard]] LargestToken largest_token() const override { return largest_of(documents_, options_); }
    [[nodiscard]] std::string fingerprint() const override { return fingerprint_of(documents_, options_, "packed"); }

private:
    // Most often the first sample counts something already.
    void check_counts() const {
        for (int64_t index = 0; index < size(); ++index) {
            if (weight(index) > 0) {
                return;
            }
        }
        fail_uncounted(documents_.cache().name_of(documents_.document(0)));
    }

    // A part of a document in the stream.
    struct Stretch {
        int64_t place;
        TokenRange tokens;
        bool begins;
        bool ends;
    };

    [[nodiscard]] int64_t inputs(int64_t index) const {
        return std::min(options_.sequence_length, targets_ - index * options_.sequence_length);
    }

    [[nodiscard]] int64_t stream_begin(int64_t place) const { return documents_.tokens_before(place) + place * ends_; }

    // The document that has a place of the stream.
    [[nodiscard]] int64_t document_at(int64_t stream_place) const {
        int64_t low = 0;
        int64_t high = documents_.size();
        while (high - low > 1) {
            const int64_t middle = low + (high - low) / 2;
            (stream_begin(middle) <= stream_place ? low : high) = middle;
        }
        return low;
    }

    template <class Body>
    void for_stretches(int64_t begin, int64_t end, const Body& body) const {
        int64_t place = document_at(begin);
        while (begin < end) {
            const TokenRange document = documents_.cache().document(documents_.document(place));
            const int64_t offset = begin - stream_begin(place);
            const int64_t last = std::min(document.size() + ends_, offset + end - begin);
            body(Stretch{.place = begin,
                         .tokens = {document.begin + offset, document.begin + std::min(last, document.size())},
                         .begins = offset == 0,
                         .ends = last > document.size()});
            begin += last - offset;
            ++place;
        }
    }

    DocumentSelection documents_;
    SampleOptions options_;
    int64_t ends_;
    int64_t targets_;
};

}  // namespace

std::unique_ptr<Dataset> packed_dataset(DocumentSelection documents, const SampleOptions& options) {
    return std::make_unique<PackedDataset>(std::move(documents), options);
}

}  // namespace accrue
