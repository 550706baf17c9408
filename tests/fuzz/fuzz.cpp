// The program that libFuzzer feeds: `fuzz --parser=gguf folder-of-inputs` looks for bytes that break a parser, and
// `fuzz --parser=gguf file` runs one file again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "tests/fuzz/parsers.h"

namespace {

const accrue::fuzz::Parser* chosen = nullptr;

}  // namespace

// Both names are libFuzzer's.
extern "C" int LLVMFuzzerInitialize(const int* count, char*** words) {
    constexpr std::string_view kOption = "--parser=";
    const auto all = accrue::fuzz::parsers();
    for (const std::string_view word : std::span(*words, static_cast<size_t>(*count))) {
        const auto found = std::find_if(all.begin(), all.end(), [&](const accrue::fuzz::Parser& parser) {
            return word.starts_with(kOption) && word.substr(kOption.size()) == parser.name;
        });
        chosen = found == all.end() ? chosen : &*found;
    }
    if (chosen == nullptr) {
        std::fputs("fuzz: say which parser, with --parser= and one of:", stderr);
        for (const auto& parser : all) {
            std::fprintf(stderr, " %.*s", static_cast<int>(parser.name.size()), parser.name.data());
        }
        std::fputs("\n", stderr);
        std::exit(2);
    }
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    chosen->run({reinterpret_cast<const char*>(data), size});
    return 0;
}
