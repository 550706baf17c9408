#include <cmath>
#include <stdexcept>

#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/parsers.h"

#include "accrue/model/export.h"

namespace accrue::fuzz {

// The model in a file: what its keys and tensors say together.
void run_gguf_model(std::string_view bytes) {
    const MemoryFile memory(bytes);
    const ModelWithWeights model = read_gguf(memory.path());
    for (const float weight : model.weights) {
        if (!std::isfinite(weight)) {
            throw std::logic_error("a weight is not finite");
        }
    }
}

}  // namespace accrue::fuzz
