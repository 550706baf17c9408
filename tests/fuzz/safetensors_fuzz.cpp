#include <vector>

#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/parsers.h"

#include "accrue/base/error.h"
#include "accrue/data/documents/token_rows.h"
#include "accrue/tensor/safetensors.h"

namespace accrue::fuzz {
namespace {

// As weights: every tensor, as bytes and as numbers.
void read_tensors(const SafetensorsFile& file) {
    for (const auto& [name, tensor] : file.tensors()) {
        std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes));
        file.read_bytes(tensor, bytes);
        if (tensor.dtype.starts_with("F") || tensor.dtype == "BF16") {
            std::vector<float> numbers(tensor.dtype.starts_with("F8") ? 0 : static_cast<size_t>(tensor.elements()));
            file.read_floats(name, numbers);
        } else {
            (void)file.read_integers(name);
        }
    }
}

}  // namespace

void run_safetensors(std::string_view bytes) {
    const MemoryFile memory(bytes);
    const SafetensorsFile file(memory.path());
    if (file.has("input_ids")) {
        const TokenRows rows(memory.path(), "rows.safetensors");
        for (int64_t row = 0; row < rows.size(); ++row) {
            (void)rows.row(row);
        }
    }
    read_tensors(file);
}

}  // namespace accrue::fuzz
