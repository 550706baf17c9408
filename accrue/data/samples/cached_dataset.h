#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "accrue/data/cache/document_selection.h"
#include "accrue/data/samples/dataset.h"

namespace accrue {

// How documents of a cache become samples.
struct SampleOptions {
    int64_t sequence_length = 0;
    // Stands behind each document and is counted.
    std::optional<int32_t> end_token = {};
    // Documents do not see each other: samples say where they begin, and a document's first token, which nothing could
    // predict, is not counted.
    bool reset_attention = false;
};

// Both datasets take their tokens from the cache when a sample is asked for. Their fingerprints follow from the documents
// and the options without reading a token: equal contents have equal ones, but another kind of dataset with the same
// samples has another. longest() is the most that a sample can have: with masked tokens all may be shorter.

// Documents joined and cut into samples of sequence_length inputs; every token but the first is a target once.
[[nodiscard]] std::unique_ptr<Dataset> packed_dataset(DocumentSelection documents, const SampleOptions& options);
// One document a sample, cut to sequence_length inputs.
[[nodiscard]] std::unique_ptr<Dataset> padded_dataset(DocumentSelection documents, const SampleOptions& options);

// What both have in common.
[[nodiscard]] Dataset::LargestToken largest_of(const DocumentSelection& documents, const SampleOptions& options);
[[nodiscard]] std::string fingerprint_of(const DocumentSelection& documents, const SampleOptions& options,
                                         std::string_view layout);
void check_sample_options(const SampleOptions& options);
[[noreturn]] void fail_uncounted(const std::string& first_document);
// A sample of tokens and one more, of which those without a flag are no targets; `starts` are document starts. All
// begin with the first token.
[[nodiscard]] Sample sample_of(std::vector<int32_t> ids, const std::vector<uint8_t>& counted,
                               std::vector<int32_t> starts);

}  // namespace accrue
