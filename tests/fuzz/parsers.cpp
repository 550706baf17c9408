#include "tests/fuzz/parsers.h"

#include <array>

#include "accrue/base/error.h"

namespace accrue::fuzz {
namespace {

template <void (*parse)(std::string_view)>
void without_errors(std::string_view bytes) {
    try {
        parse(bytes);
    } catch (const Error&) {  // the bytes are no such file, and a sentence says why
    }
}

constexpr std::array<Parser, 15> kParsers = {{
    {"tokenizer_json", without_errors<run_tokenizer_json>},
    {"tokenizer_ranks", without_errors<run_tokenizer_ranks>},
    {"sentencepiece", without_errors<run_sentencepiece>},
    {"safetensors", without_errors<run_safetensors>},
    {"gguf", without_errors<run_gguf>},
    {"gguf_model", without_errors<run_gguf_model>},
    {"model_config", without_errors<run_model_config>},
    {"jsonl", without_errors<run_jsonl>},
    {"chat_template", without_errors<run_chat_template>},
    {"bin", without_errors<run_bin>},
    {"token_cache", without_errors<run_token_cache>},
    {"ledger", without_errors<run_ledger>},
    {"window_record", without_errors<run_window_record>},
    {"packet", without_errors<run_packet>},
    {"wire_message", without_errors<run_wire_message>},
}};

}  // namespace

std::span<const Parser> parsers() {
    return kParsers;
}

}  // namespace accrue::fuzz
