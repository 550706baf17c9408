#pragma once

#include <memory>

#include "accrue/model/decoder/config.h"
#include "accrue/model/families.h"

namespace accrue {

// What a configuration describes, as everything outside of this folder sees it.
[[nodiscard]] std::shared_ptr<const ModelSpec> decoder_spec(ModelConfig config);

// Decoder-only transformers: GPT-2, Llama, Mistral, Qwen2, Qwen3.
[[nodiscard]] ModelFamily decoder_family();

}  // namespace accrue
