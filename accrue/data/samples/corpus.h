#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/data/cache/document_tokenizer.h"
#include "accrue/data/cache/token_cache.h"
#include "accrue/data/documents/document.h"
#include "accrue/data/samples/dataset.h"
#include "accrue/data/tokenizers/tokenizer.h"

namespace accrue {

// How documents become samples.
enum class Layout {
    // Joined and cut, so that every place of a sample is used: for pretraining.
    packed,
    // One document a sample: for fine-tuning.
    padded,
};

// Files that become samples, and how.
struct CorpusOptions {
    std::vector<std::filesystem::path> files;
    std::filesystem::path cache_folder;
    int64_t sequence_length = 256;
    Layout layout = Layout::packed;
    bool reset_attention = false;
    // From 0 to below 1; 0 = no validation.
    double validation_fraction = 0;
    ReaderOptions reader = {};
    // Behind each document; none = the tokenizer's, if it has one.
    std::optional<int32_t> end_token = {};
    // For tokenizing; 0 = all processors.
    int threads = 0;
    CacheProgressCallback progress = nullptr;
};

// Files as samples.
struct Corpus {
    std::unique_ptr<Dataset> train;
    // None without a validation_fraction.
    std::unique_ptr<Dataset> validation;
    int64_t documents = 0;
    int64_t tokens = 0;
    // Documents that became text by a chat format.
    int64_t conversations = 0;
    // Damaged lines, rows that count nothing and documents without a token.
    int64_t skipped = 0;
    // Why an older cache was not taken; empty if it was, or if there was none.
    std::string rebuilt_because;
};

// Tokenizes the files, or finds that this was done before. The tokenizer is not needed afterwards.
[[nodiscard]] Corpus open_corpus(const CorpusOptions& options, const Tokenizer& tokenizer);

}  // namespace accrue
