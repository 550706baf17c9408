#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "accrue/model/model.h"
#include "accrue/tensor/float_format.h"
#include "accrue/tensor/gguf_tokenizer.h"

namespace accrue {

// At most so many of each; what is left open has no limit.
struct ModelLimits {
    static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
    int64_t blocks = kNone;
    int64_t vocabulary = kNone;
    int64_t positions = kNone;
};

// A GGUF file to be written.
struct GgufTarget {
    std::filesystem::path file;  // there is none yet, or it may be replaced
    FloatFormat format = FloatFormat::bf16;
    std::optional<GgufTokenizer> tokenizer = std::nullopt;  // without one the file says that it has none
};

// A model before it has weights or a device: what it is, what it would take, and how to make it. Immutable, so that all
// who look at a run share one.
class ModelSpec {
public:
    // What every model can say of itself.
    struct Facts {
        std::string family = {};  // model_type of its config.json
        int64_t vocabulary = 0;
        int64_t positions = 0;  // the longest sequence
        int64_t blocks = 0;     // that can be recomputed each on its own; see Choices
        // The config.json it was read from (or that describes a preset), written out unchanged beside trained weights.
        std::string config_json = {};
        // All that it computes by, as a JSON object: two models with the same text compute the same. Where it came from
        // and how weights were initialized is not in it.
        std::string computation_json = {};
        ParameterList parameters = {};
    };

    virtual ~ModelSpec() = default;
    ModelSpec(const ModelSpec&) = delete;
    ModelSpec& operator=(const ModelSpec&) = delete;

    [[nodiscard]] const std::string& family() const { return facts_.family; }
    [[nodiscard]] int64_t vocabulary() const { return facts_.vocabulary; }
    [[nodiscard]] int64_t positions() const { return facts_.positions; }
    [[nodiscard]] int64_t blocks() const { return facts_.blocks; }
    [[nodiscard]] const std::string& config_json() const { return facts_.config_json; }
    [[nodiscard]] const std::string& computation_json() const { return facts_.computation_json; }
    [[nodiscard]] const ParameterList& parameters() const { return facts_.parameters; }

    // On the device of the kernels, which must outlive it.
    [[nodiscard]] virtual std::unique_ptr<Model> make(const ModelOptions& options, Kernels& kernels) const = 0;
    // The same kernels in the same widths, but less of them, for probes and measurements. It keeps the config.json.
    [[nodiscard]] virtual std::shared_ptr<const ModelSpec> at_most(const ModelLimits& limits) const = 0;
    // The floating-point operations that the gradient of one sequence cannot do without.
    [[nodiscard]] virtual double gradient_flops(int64_t tokens) const = 0;
    // What a grain takes outside of the arena while its micro-batch is computed, besides its tokens.
    [[nodiscard]] virtual int64_t host_bytes_of_grain() const { return 0; }
    // Names and values for people, parameters not counted among them.
    [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> description() const;
    // Writes a GGUF file as llama.cpp's converter would make it, and returns its bytes. `weights` is flat, in the layout
    // of parameters(). An error where llama.cpp has no such models.
    virtual int64_t write_gguf(const GgufTarget& target, std::span<const float> weights) const;

protected:
    explicit ModelSpec(Facts facts) : facts_(std::move(facts)) {}

private:
    Facts facts_;
};

// A model read whole.
struct ModelWithWeights {
    std::shared_ptr<const ModelSpec> model;
    std::vector<float> weights;  // flat, in the layout of its parameters
};

}  // namespace accrue
