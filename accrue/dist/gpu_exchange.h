#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "accrue/dist/exchange.h"

namespace accrue {

// Puts checks of integers on a GPU's stream: afterwards `parts` there, so many of them, add up to linear_check() of the values.
struct CheckOnGpu {
    int64_t parts = 0;
    std::function<void(std::span<const int64_t> values, int64_t first, uint64_t seed, uint64_t* parts, void* stream)>
        enqueue;
};

// The GPU on which a member's sums lie, and what an exchange may use there.
struct MemberGpu {
    int number = 0;
    std::span<std::byte> memory;  // of the GPU: gpu_exchange_room() bytes
    CheckOnGpu check;
    bool may_be_shared = false;              // for tests: by other members
    std::chrono::milliseconds limit{30000};  // for a piece of the sums to be added up
    // How often NCCL has failed since it last did what it should, although nobody was known to be gone.
    std::shared_ptr<int64_t> faults = std::make_shared<int64_t>(0);
};

// Memory of a GPU that an exchange of so many sums there takes, beside what NCCL takes for itself.
[[nodiscard]] int64_t gpu_exchange_room(int64_t elements, int64_t check_parts);
// What NCCL takes of a GPU's memory. Measured with two members on one GPU (bench/gpu_workers).
inline constexpr int64_t kNcclBytes = int64_t{512} << 20;

// Why GPUs of this machine cannot exchange sums by NCCL; "" = they can.
[[nodiscard]] std::string why_no_nccl();

// Adds up sums that lie on GPUs, from one to another.
class GpuExchange {
public:
    virtual ~GpuExchange() = default;
    // Everybody's sums, which it holds; `look` is called while it waits, and throws when a member is gone. Throws RosterChanged also
    // when one is silent for too long; it is of no more use then.
    [[nodiscard]] virtual ExchangeChecks add_up(const IntegerSums& sums, uint64_t seed,
                                                const std::function<void()>& look) = 0;
    // In the place of mine, as the last call made them.
    virtual void write(const IntegerSums& sums) = 0;
    [[nodiscard]] virtual int64_t sent_bytes() const = 0;
};

// Where the members of a roster find out whether their GPUs can add up sums among themselves. One for all rosters of a worker, of a
// run that computes on GPUs; every member must have one and call it.
class GpuMeeting {
public:
    // This member has no such GPU: all exchange through their hosts.
    GpuMeeting() = default;
    explicit GpuMeeting(MemberGpu mine) : mine_(std::make_unique<MemberGpu>(std::move(mine))) {}

    // Lets the mesh use GPUs where every member can, each with a GPU of its own. How sums are exchanged, for people.
    [[nodiscard]] std::string meet(Mesh& mesh, int64_t rank, int64_t size);

private:
    [[nodiscard]] std::string why_not() const;

    std::unique_ptr<MemberGpu> mine_;
};

// For GpuMeeting: what this GPU is called, like no other one anywhere; which NCCL is here; how those who meet by it are found, of
// which one member makes one; and the connection. Errors say why it cannot be.
[[nodiscard]] std::string name_of_gpu(int number);
[[nodiscard]] std::string nccl_version();
[[nodiscard]] std::string new_nccl_meeting();
[[nodiscard]] std::unique_ptr<GpuExchange> connect_gpus(const MemberGpu& mine, const std::string& meeting, int64_t rank,
                                                        int64_t size, const std::function<void()>& look);

}  // namespace accrue
