#include "accrue/cli/tokenize_command.h"

#include <charconv>
#include <iostream>
#include <iterator>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/output_path.h"
#include "accrue/data/documents/document.h"
#include "accrue/data/tokenizers/bpe_trainer.h"
#include "accrue/data/tokenizers/tokenizer.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

Json parse_line(const std::string& line, int64_t number, const char* key) {
    Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded() || !json.is_object() || !json.contains(key)) {
        throw Error(cat("line ", number, " is not a JSON object with \"", key, "\"."));
    }
    return json;
}

// The words of a line that should be ids.
std::vector<std::string> words_of_line(const std::string& line, int64_t number) {
    if (!line.starts_with('{')) {
        std::istringstream words(line);
        return {std::istream_iterator<std::string>(words), {}};
    }
    const Json json = parse_line(line, number, "ids");
    if (!json["ids"].is_array()) {
        throw Error(cat("line ", number, ": \"ids\" is not a list of numbers."));
    }
    std::vector<std::string> words;
    for (const Json& id : json["ids"]) {
        words.push_back(id.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    return words;
}

// An id that the tokenizer never gives, such as a hole in the vocabulary, would lose text without a word.
std::vector<int32_t> ids_of_line(const std::string& line, int64_t number, const Tokenizer& tokenizer) {
    std::vector<int32_t> ids;
    for (const std::string& word : words_of_line(line, number)) {
        const char* const end = word.data() + word.size();
        int32_t id = -1;
        const auto [stopped, error] = std::from_chars(word.data(), end, id);
        if (stopped != end || error == std::errc::invalid_argument) {
            throw Error(cat("line ", number, ": ", word,
                            " is not a token id. A line is {\"ids\": [...]} or a row of token ids."));
        }
        if (error != std::errc() || id < 0 || id >= tokenizer.vocabulary()) {
            throw Error(cat("line ", number, " has the id ", word, ", but the vocabulary has only ",
                            tokenizer.vocabulary(), " ids (0 to ", tokenizer.vocabulary() - 1,
                            "). Name the tokenizer that made these ids."));
        }
        if (tokenizer.token_text(id).empty()) {
            throw Error(cat("line ", number, " has the id ", word, ", which stands for no token in the vocabulary of ",
                            tokenizer.vocabulary(), " ids. Name the tokenizer that made these ids."));
        }
        ids.push_back(id);
    }
    return ids;
}

std::string to_line(const char* key, const Json& value) {
    return Json{{key, value}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void decode_lines(const Tokenizer& tokenizer) {
    int64_t number = 0;
    for (std::string line; std::getline(std::cin, line);) {
        const std::string text = tokenizer.decode(ids_of_line(line, ++number, tokenizer), Special::without);
        fmt::print("{}", line.starts_with('{') ? to_line("text", text) : text + "\n");
    }
}

void encode_lines(const Tokenizer& tokenizer, Special special) {
    int64_t number = 0;
    for (std::string line; std::getline(std::cin, line);) {
        const Json json = parse_line(line, ++number, "text");
        if (!json["text"].is_string()) {
            throw Error(cat("line ", number, ": \"text\" is not a text."));
        }
        fmt::print("{}", to_line("ids", tokenizer.encode(json["text"].get<std::string>(), special)));
    }
}

}  // namespace

ExitCode run_tokenize(const TokenizeCommand& command) {
    std::ios::sync_with_stdio(false);
    const auto tokenizer = open_tokenizer(command.tokenizer);
    const Special special = command.no_special ? Special::without : Special::with;
    if (command.decode) {
        decode_lines(*tokenizer);
    } else if (command.jsonl) {
        encode_lines(*tokenizer, special);
    } else {
        const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
        fmt::print("{}\n", fmt::join(tokenizer->encode(text, special), " "));
    }
    return ExitCode::done;
}

ExitCode run_tokenizer_train(const TokenizerTrainCommand& command) {
    const auto files = expand_files(command.files);
    const auto output = check_output_file({.option = "--output",
                                           .path = command.output,
                                           .inputs = {files.begin(), files.end()},
                                           .overwrite = command.overwrite ? Overwrite::yes : Overwrite::no});
    std::vector<std::string> texts;
    for (const auto& file : files) {
        const auto reader = open_documents(file, {});
        for (Document document; reader->next(document);) {
            for (DocumentPart& part : document.parts) {
                texts.push_back(std::move(part.text));
            }
        }
    }
    write_text(output, train_byte_level_bpe(texts, command.vocabulary));
    const int64_t made = open_tokenizer(output)->vocabulary();
    fmt::print("{}: {} tokens from {} text(s)\n", command.output, made, texts.size());
    return ExitCode::done;
}

void add_tokenizer_commands(CLI::App& app, TokenizeCommand& tokenize, TokenizerTrainCommand& train, ExitCode& code) {
    auto* split = app.add_subcommand("tokenize", "Text from standard input as token ids, or back");
    split
        ->add_option("--tokenizer", tokenize.tokenizer,
                     "A tokenizer.json, tokenizer.model or rank file, a model folder, or \"byte\"")
        ->required();
    split->add_flag("--jsonl", tokenize.jsonl, "Lines of {\"text\": ...} in, {\"ids\": [...]} out");
    split->add_flag("--decode", tokenize.decode, "Lines of {\"ids\": [...]} or of ids in, text out");
    split->add_flag("--no-special", tokenize.no_special, "Do not add the tokenizer's special tokens");
    split->callback([&] { code = run_tokenize(tokenize); });

    auto* tokenizer = app.add_subcommand("tokenizer", "Make a tokenizer");
    tokenizer->require_subcommand(1);
    auto* make = tokenizer->add_subcommand("train", "A byte-level BPE tokenizer.json from text");
    make->add_option("files", train.files, "Text files, folders or patterns")->required();
    make->add_option("--vocabulary", train.vocabulary, "How many tokens, at most")
        ->capture_default_str()
        ->check(CLI::Range(257, 1'000'000));
    make->add_option("--output", train.output, "Where to write it")->capture_default_str();
    make->add_flag("--overwrite", train.overwrite, "Replace the output if it exists");
    make->callback([&] { code = run_tokenizer_train(train); });
}

}  // namespace accrue
