#include <array>

#include "tests/fuzz/memory_stream.h"
#include "tests/fuzz/parsers.h"
#include "tests/fuzz/walk_documents.h"

#include "accrue/data/documents/document_readers.h"

namespace accrue::fuzz {

// Bad lines skipped first, because a line that stops the reading would hide those behind it. One chat format at a time,
// for speed.
void run_jsonl(std::string_view bytes) {
    constexpr std::array<const char*, 3> kFormats = {"chatml", "llama3", "plain"};
    for (const bool skip_bad : {true, false}) {
        walk_documents(*read_jsonl_documents(std::make_unique<MemoryStream>(bytes, "lines.jsonl"),
                                             {.chat_format = kFormats[bytes.size() % 3], .skip_bad = skip_bad}));
    }
}

}  // namespace accrue::fuzz
