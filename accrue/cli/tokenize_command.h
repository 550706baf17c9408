#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "accrue/cli/commands.h"

namespace accrue {

// `accrue tokenize`: standard input to standard output.
struct TokenizeCommand {
    std::string tokenizer;
    bool jsonl = false;       // {"text": ...} in, {"ids": [...]} out, a line each
    bool decode = false;      // the other way: ids in, text out, special tokens left out
    bool no_special = false;  // do not add the special tokens of the tokenizer's template
};
[[nodiscard]] ExitCode run_tokenize(const TokenizeCommand& command);

// `accrue tokenizer train`: a byte-level BPE tokenizer.json from text files.
struct TokenizerTrainCommand {
    std::vector<std::string> files;
    int64_t vocabulary = 32000;
    std::string output = "tokenizer.json";
    bool overwrite = false;
};
[[nodiscard]] ExitCode run_tokenizer_train(const TokenizerTrainCommand& command);

// Declares both on the command line; `code` gets what the chosen one returns.
void add_tokenizer_commands(CLI::App& app, TokenizeCommand& tokenize, TokenizerTrainCommand& train, ExitCode& code);

}  // namespace accrue
