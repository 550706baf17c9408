#include "accrue/model/choices.h"

#include <array>

#include "accrue/base/error.h"

namespace accrue {
namespace {

constexpr std::array kAll = {Recompute::nothing, Recompute::cheap, Recompute::block};

}  // namespace

std::string_view name_of(Recompute recompute) {
    switch (recompute) {
        case Recompute::nothing:
            return "nothing";
        case Recompute::cheap:
            return "cheap";
        case Recompute::block:
            return "block";
    }
    return "";
}

Recompute recompute_of(std::string_view name) {
    for (const Recompute recompute : kAll) {
        if (name_of(recompute) == name) {
            return recompute;
        }
    }
    throw Error(cat("there is no way to recompute called \"", name, "\". Use nothing, cheap or block."));
}

std::vector<std::string> recompute_names() {
    std::vector<std::string> names;
    for (const Recompute recompute : kAll) {
        names.emplace_back(name_of(recompute));
    }
    return names;
}

std::string_view name_of(Choices::WeightCopy weight_copy) {
    return weight_copy == Choices::WeightCopy::kept ? "kept" : "converted";
}

void check_choices(const Choices& choices, int64_t layers) {
    const auto named = static_cast<int64_t>(choices.blocks.size());
    if (named != 0 && named != layers) {
        throw Error(cat("what to recompute was chosen for ", named, " layers, but the model has ", layers,
                        ". Choose for each of them, or for none."));
    }
    if (choices.loss_rows < 1) {
        throw Error(cat("the loss was to be computed ", choices.loss_rows, " rows at a time. Choose at least 1."));
    }
}

}  // namespace accrue
