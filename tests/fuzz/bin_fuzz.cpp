#include "tests/fuzz/memory_stream.h"
#include "tests/fuzz/parsers.h"
#include "tests/fuzz/walk_documents.h"

#include "accrue/base/error.h"
#include "accrue/data/documents/document_readers.h"

namespace accrue::fuzz {

// The name says how wide ids are, so both names are tried.
void run_bin(std::string_view bytes) {
    for (const char* name : {"ids.bin", "ids.u32.bin"}) {
        try {
            walk_documents(*read_bin_documents(std::make_unique<MemoryStream>(bytes, name)));
        } catch (const Error&) {  // the other name may still fit
        }
    }
}

}  // namespace accrue::fuzz
