#pragma once

#include <stdexcept>

#include "accrue/data/documents/document.h"

namespace accrue::fuzz {

// Reads all documents and checks what a reader promises of each.
inline void walk_documents(DocumentReader& reader) {
    for (Document document; reader.next(document);) {
        if (document.parts.empty()) {
            throw std::logic_error("a document without a part");
        }
        for (const DocumentPart& part : document.parts) {
            if (part.text.empty() == part.ids.empty()) {
                throw std::logic_error("a part that is not either text or ids");
            }
        }
    }
}

}  // namespace accrue::fuzz
