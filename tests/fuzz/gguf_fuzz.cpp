#include <vector>

#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/parsers.h"

#include "accrue/tensor/gguf.h"

namespace accrue::fuzz {

void run_gguf(std::string_view bytes) {
    const MemoryFile memory(bytes);
    const GgufFile file(memory.path());
    for (const auto& [key, value] : file.metadata()) {
        (void)type_name_of(value);
        (void)file.find(key);
    }
    for (const GgufTensor& tensor : file.tensors()) {
        const bool plain = tensor.type == "F32" || tensor.type == "F16" || tensor.type == "BF16";
        std::vector<float> numbers(plain ? static_cast<size_t>(tensor.elements()) : 0);
        file.read_floats(tensor, numbers);
    }
}

}  // namespace accrue::fuzz
