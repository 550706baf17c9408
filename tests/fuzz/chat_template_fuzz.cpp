#include "tests/fuzz/parsers.h"

#include "accrue/data/documents/chat_template.h"

namespace accrue::fuzz {

void run_chat_template(std::string_view bytes) {
    (void)recognize_chat_template(std::string(bytes), {.begin = "<s>", .end = "</s>"});
}

}  // namespace accrue::fuzz
