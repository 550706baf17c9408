#include "accrue/base/error.h"
#include "accrue/dist/gpu_exchange.h"

// What a program has that was built without CUDA or without NCCL's header.
namespace accrue {
namespace {

constexpr const char* kWithoutNccl = "this program was built without NCCL";

}  // namespace

int64_t gpu_exchange_room(int64_t /*elements*/, int64_t /*check_parts*/) {
    return 0;
}

std::string why_no_nccl() {
    return kWithoutNccl;
}

std::string name_of_gpu(int /*number*/) {
    throw Error(kWithoutNccl);
}

std::string nccl_version() {
    throw Error(kWithoutNccl);
}

std::string new_nccl_meeting() {
    throw Error(kWithoutNccl);
}

std::unique_ptr<GpuExchange> connect_gpus(const MemberGpu& /*mine*/, const std::string& /*meeting*/, int64_t /*rank*/,
                                          int64_t /*size*/, const std::function<void()>& /*look*/) {
    throw Error(kWithoutNccl);
}

}  // namespace accrue
