#pragma once

#include <span>
#include <string_view>

namespace accrue::fuzz {

// Reads bytes as one kind of file, as the program would, and uses all that it finds in them. Bytes that are no such
// file end in accrue::Error, which is caught here; anything else that is thrown is a mistake in the parser.
struct Parser {
    std::string_view name;  // also the folder of its seeds
    void (*run)(std::string_view bytes);
};

// All kinds of file, and of message, that come from others.
[[nodiscard]] std::span<const Parser> parsers();

// What parsers() lists, one file each.
void run_tokenizer_json(std::string_view bytes);
void run_tokenizer_ranks(std::string_view bytes);
void run_safetensors(std::string_view bytes);
void run_sentencepiece(std::string_view bytes);
void run_gguf(std::string_view bytes);
void run_gguf_model(std::string_view bytes);
void run_model_config(std::string_view bytes);
void run_jsonl(std::string_view bytes);
void run_chat_template(std::string_view bytes);
void run_bin(std::string_view bytes);
void run_token_cache(std::string_view bytes);
void run_ledger(std::string_view bytes);
void run_window_record(std::string_view bytes);
void run_packet(std::string_view bytes);
void run_wire_message(std::string_view bytes);

}  // namespace accrue::fuzz
