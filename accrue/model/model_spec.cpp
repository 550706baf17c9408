#include "accrue/model/model_spec.h"

#include "accrue/base/error.h"

namespace accrue {

std::vector<std::pair<std::string, std::string>> ModelSpec::description() const {
    return {
        {"family", family()}, {"vocabulary", std::to_string(vocabulary())}, {"positions", std::to_string(positions())}};
}

int64_t ModelSpec::write_gguf(const GgufTarget& target, std::span<const float> /*weights*/) const {
    throw Error(cat("cannot write ", target.file.string(), ": llama.cpp has no models of the family \"", family(),
                    "\". Export it as a Hugging Face folder instead: --to hf."));
}

}  // namespace accrue
