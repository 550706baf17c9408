#include "accrue/data/samples/cached_dataset.h"

#include <algorithm>
#include <string>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"

namespace accrue {

Dataset::LargestToken largest_of(const DocumentSelection& documents, const SampleOptions& options) {
    const DocumentFacts& facts = documents.facts();
    const TokenCache& cache = documents.cache();
    if (options.end_token.value_or(-1) > facts.largest_token) {
        const int64_t first = documents.document(0);
        return {*options.end_token, cat(cache.name_of(first), ", place ", cache.document(first).size())};
    }
    return {facts.largest_token, cat(cache.name_of(facts.largest_document), ", place ", facts.largest_place)};
}

std::string fingerprint_of(const DocumentSelection& documents, const SampleOptions& options, std::string_view layout) {
    const DocumentFacts& facts = documents.facts();
    const std::string text = cat(layout, " ", options.sequence_length, " ", options.end_token.value_or(-1), " ",
                                 options.reset_attention ? "reset" : "joined", " ", facts.documents, " ",
                                 std::string_view(facts.digest.data(), facts.digest.size()));
    return hash_of(std::as_bytes(std::span(text)));
}

void check_sample_options(const SampleOptions& options) {
    if (options.sequence_length < 1) {
        throw Error(cat("data.sequence_length is ", options.sequence_length, ", and at least 1 is needed"));
    }
}

void fail_uncounted(const std::string& first_document) {
    throw Error(cat(first_document,
                    " and the documents after it count nothing: none has an input and a counted target. ",
                    "Only completions, assistant turns and labels other than -100 count."));
}

Sample sample_of(std::vector<int32_t> ids, const std::vector<uint8_t>& counted, std::vector<int32_t> starts) {
    Sample sample;
    for (size_t place = 1; place < ids.size(); ++place) {
        if (counted[place] != 0) {
            sample.targets.resize(place, -1);
            sample.targets.back() = ids[place];
        }
    }
    const auto length = static_cast<int32_t>(sample.targets.size());
    std::erase_if(starts, [&](int32_t start) { return start >= length; });
    ids.resize(sample.targets.size());
    sample.tokens = std::move(ids);
    sample.document_starts = std::move(starts);
    return sample;
}

}  // namespace accrue
