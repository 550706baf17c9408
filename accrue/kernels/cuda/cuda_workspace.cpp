#include "accrue/kernels/cuda/cuda_traits.h"
#include "accrue/kernels/device.h"
#include "accrue/kernels/gpus.h"

namespace accrue {
namespace {

class CudaWorkspace final : public Workspace {
public:
    explicit CudaWorkspace(int architecture) : architecture_(architecture) {}

    int64_t take(const Operation& operation, Arena& arena) const override {
        const int64_t bytes =
            std::visit([this](const auto& call) { return cuda::scratch_bytes(call, architecture_); }, operation);
        if (bytes > 0) {
            arena.take(bytes).release();
        }
        return bytes;
    }
    [[nodiscard]] DeviceTraits traits() const override { return cuda::traits(); }
    [[nodiscard]] int64_t kept_bytes() const override { return cuda::kept_bytes(); }

private:
    int architecture_;
};

}  // namespace

std::unique_ptr<Workspace> make_cuda_workspace(int gpu) {
    return std::make_unique<CudaWorkspace>(architecture_of_gpu(gpu).value_or(cuda::kUnknownArchitecture));
}

}  // namespace accrue
