#pragma once

#include <optional>
#include <string>

#include "accrue/model/decoder/config.h"
#include "accrue/tensor/gguf.h"
#include "accrue/tensor/gguf_tokenizer.h"

namespace accrue {

// All that a GGUF file says about a model beside its tensors. A vocabulary shorter than the model's gets unused tokens
// behind it, because llama.cpp wants as many tokens as rows; a longer one is an error. Without a tokenizer the file
// says that there is none.
[[nodiscard]] GgufMetadata gguf_metadata(const ModelConfig& config, FloatFormat format, const std::string& name,
                                         const std::optional<GgufTokenizer>& tokenizer);

// The way back: the model that a file's metadata and the names of its tensors describe. Errors name file and key.
[[nodiscard]] ModelConfig config_of_gguf(const GgufFile& file);

}  // namespace accrue
