#include "accrue/kernels/kernels.h"

namespace accrue {

void Kernels::run(const Operation& operation) {
    std::visit([](const auto& known) { known.check(); }, operation);
    const Arena::Access access(arena());
    const bool is_transfer =
        std::holds_alternative<op::Upload>(operation) || std::holds_alternative<op::Download>(operation);
    if (watch_ == nullptr || is_transfer) {
        compute(operation);
        return;
    }
    watch_->begin(operation);
    compute(operation);
    watch_->end();
}

ByteSource source_of(Kernels& kernels, std::span<const std::byte> device) {
    return {
        std::ssize(device), [&kernels, device](int64_t offset, std::span<std::byte> into) {
            kernels.run(op::Download{.device = device.subspan(static_cast<size_t>(offset), into.size()), .host = into});
        }};
}

}  // namespace accrue
