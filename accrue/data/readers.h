#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "accrue/data/dataset.h"

namespace accrue {

// What open_dataset() chooses from; one function per kind of file.

// Text files, each ended by ByteTokenizer::kEnd, joined and cut into samples.
[[nodiscard]] std::unique_ptr<Dataset> open_text(const std::vector<std::filesystem::path>& files,
                                                 int64_t sequence_length);
// Safetensors files with one sample per row of input_ids.
[[nodiscard]] std::unique_ptr<Dataset> open_token_rows(const std::vector<std::filesystem::path>& files);

// The checksum of all samples in order, whatever they were read from.
[[nodiscard]] std::string fingerprint_of(const Dataset& dataset);

}  // namespace accrue
