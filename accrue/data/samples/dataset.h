#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "accrue/data/tokenizers/tokenizer.h"

namespace accrue {

// One sequence with its targets: targets[i] is what the model should say after tokens[0..i]; -1 is not counted.
// Cut after its last counted target, because nothing behind that can matter; a sample that counts nothing is empty.
struct Sample {
    std::vector<int32_t> tokens;
    std::vector<int32_t> targets;
    // Where documents begin that must not see each other, 0 included; empty: everything before is seen.
    std::vector<int32_t> document_starts = {};
};

// Samples by number, at least one of which counts something. Reading is safe from several threads.
class Dataset {
public:
    virtual ~Dataset() = default;
    [[nodiscard]] virtual int64_t size() const = 0;
    [[nodiscard]] virtual Sample sample(int64_t index) const = 0;
    // How much a sample counts: its counted targets.
    [[nodiscard]] virtual int64_t weight(int64_t index) const = 0;
    // The longest sample, in tokens.
    [[nodiscard]] virtual int64_t longest() const = 0;
    // The largest token id, for a check against the model's vocabulary, and where it stands ("file, sample 3, place
    // 7").
    struct LargestToken {
        int64_t token = -1;
        std::string where;
    };
    [[nodiscard]] virtual LargestToken largest_token() const = 0;
    // What is in the files but not learned from, so that a user can be told. Known when a dataset is opened.
    struct LeftOut {
        int64_t cut_documents = 0;      // too long for a sample, with counted tokens behind the cut
        int64_t cut_tokens = 0;         // those counted tokens
        int64_t uncounted_samples = 0;  // samples that count nothing
    };
    [[nodiscard]] virtual LeftOut left_out() const { return {}; }
    // A checksum of the contents: two datasets with the same samples have the same.
    [[nodiscard]] virtual std::string fingerprint() const = 0;
};

// The checksum of all samples in order, whatever they were read from.
[[nodiscard]] std::string fingerprint_of(const Dataset& dataset);

// .safetensors files as one dataset, in the order given: a sample per row of input_ids [samples, tokens], with optional
// labels (-100 = not counted, shifted as in Hugging Face). Errors: no such file, wrong shape or dtype, nothing counted.
[[nodiscard]] std::unique_ptr<Dataset> open_token_rows(const std::vector<std::filesystem::path>& files);
// Tokens in memory cut into samples of sequence_length inputs each; the last one may be short.
[[nodiscard]] std::unique_ptr<Dataset> dataset_of_tokens(std::vector<int32_t> tokens, int64_t sequence_length,
                                                         std::string name);

// Which sample stands at a place of an epoch: a pure function of seed, epoch and place.
class SampleOrder {
public:
    enum class Kind { sequential, shuffled };
    SampleOrder(Kind kind, uint64_t seed, int64_t size) : kind_(kind), seed_(seed), size_(size) {}
    [[nodiscard]] int64_t sample_at(int64_t epoch, int64_t place) const;
    [[nodiscard]] int64_t size() const { return size_; }

private:
    Kind kind_;
    uint64_t seed_;
    int64_t size_;
};

}  // namespace accrue
