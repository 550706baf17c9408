#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "accrue/data/tokenizers/pipeline_tokenizer.h"

namespace accrue {

// The parts of a tokenizer.json around its model. Each adds to `parts`; a part that is not supported is an error.
void read_normalizer(const nlohmann::json& json, TokenizerParts& parts);
// Also finds out whether the model works on bytes.
void read_pre_tokenizer(const nlohmann::json& json, TokenizerParts& parts);
void read_post_processor(const nlohmann::json& json, TokenizerParts& parts);
void read_decoder(const nlohmann::json& json, TokenizerParts& parts);

// JSON of a few levels; more are an error.
[[nodiscard]] nlohmann::json parse_tokenizer_file(std::string_view contents);

// "the normalizer Lowercase is not supported; ..." Not yet with the file's name.
[[noreturn]] void refuse_part(const std::string& what, const std::string& why);

}  // namespace accrue
