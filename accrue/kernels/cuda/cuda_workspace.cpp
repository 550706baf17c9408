#include "accrue/kernels/cuda/cuda_traits.h"
#include "accrue/kernels/device.h"

namespace accrue {
namespace {

class CudaWorkspace final : public Workspace {
public:
    int64_t take(const Operation& operation, Arena& arena) const override {
        const int64_t bytes = std::visit([](const auto& call) { return cuda::scratch_bytes(call); }, operation);
        if (bytes > 0) {
            arena.take(bytes).release();
        }
        return bytes;
    }
    [[nodiscard]] DeviceTraits traits() const override { return cuda::traits(); }
    [[nodiscard]] int64_t kept_bytes() const override { return cuda::kConstantBytes + cuda::kLibraryBytes; }
};

}  // namespace

std::unique_ptr<Workspace> make_cuda_workspace() {
    return std::make_unique<CudaWorkspace>();
}

}  // namespace accrue
