#include "accrue/model/choices.h"

#include "accrue/base/error.h"

namespace accrue {

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
