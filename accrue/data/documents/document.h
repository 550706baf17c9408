#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace accrue {

// A stretch of a document that is either text, still to be tokenized, or token ids; never empty. Each part is tokenized
// by itself, also where the one before has the same flags: no token spans two parts.
struct DocumentPart {
    std::string text;
    std::vector<int32_t> ids;  // used when text is empty
    bool counted = true;       // are its tokens targets? false for prompts and user turns
    bool has_markup = false;   // may special tokens be recognised in the text? true only for a chat format's own marks
};

// What belongs together: a file, a line of JSON, a conversation, a row of token ids.
struct Document {
    std::vector<DocumentPart> parts;
    // A .txt or .bin file larger than a piece (1 MiB of text, 2^20 ids) is handed out piece by piece: true when the
    // next call of next() goes on with the same document, so that no end belongs between the two.
    bool unfinished = false;
};

// How a file is read.
struct ReaderOptions {
    std::string chat_format = "chatml";  // chatml, llama3, plain: how `messages` become text
    bool skip_bad = false;               // count and skip damaged lines instead of stopping
    // Not empty: why no chat format is known. Then a line with `messages` is this error, whatever skip_bad says.
    std::string chat_fault = {};
};

// Documents one after another, in constant memory.
class DocumentReader {
public:
    virtual ~DocumentReader() = default;
    // The next document, which has at least one part; false at the end. Lines with an empty text and rows that count
    // nothing are passed over. A damaged line is an error that names file and line, unless skip_bad is set; a file
    // without any document is one too. After an error, drop the reader.
    virtual bool next(Document& document) = 0;
    // Damaged lines and rows that count nothing, skipped so far.
    [[nodiscard]] virtual int64_t skipped() const { return 0; }
};

// Opens one file by its ending, each also with .gz or .zst behind:
// .txt          UTF-8, one document. A byte order mark is dropped. Pieces end before the white space behind a word,
//               where the usual tokenizers cut too, else behind a line end, and never inside a character.
// .jsonl        a document per line: {"messages": [{"role", "content"}, ...]}, else {"prompt", "completion"}, else
//               {"text"}. Completions and assistant turns count, prompts and other turns do not. Blank lines are
//               ignored.
// .bin          token ids, one document: llm.c's files (recognised by their header; uint16 or uint32), and without a
//               header uint16 as nanoGPT writes them, or uint32 if the name ends in .u32.bin. Little-endian.
// .safetensors  a document per row of input_ids; labels (the same ids, or -100) say what counts, and what stands behind
//               the last counted token is dropped. Compressed ones are unpacked into the folder for temporary files.
[[nodiscard]] std::unique_ptr<DocumentReader> open_documents(const std::filesystem::path& file,
                                                             const ReaderOptions& options);

// Files, folders (all known files in them, sorted, recursively, hidden ones left out) and globs (* and ?, matches
// sorted) as a list of files, in the order of the names. A name that gives no file is an error.
[[nodiscard]] std::vector<std::filesystem::path> expand_files(const std::vector<std::string>& names);

// A document as the model will see it.
struct TokenizedDocument {
    std::vector<int32_t> ids;
    std::vector<uint8_t> counted;  // per token: does it count as a target?
};

}  // namespace accrue
