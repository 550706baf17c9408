#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/dist/exchange_cost.h"
#include "accrue/dist/gpu_exchange.h"
#include "accrue/dist/sum_exchange.h"

namespace accrue {
namespace {

// What is added up at a time, and waited for: large enough for any link, and a piece that does not come shows that a member is
// silent.
constexpr int64_t kPieceElements = int64_t{8} << 20;
constexpr int64_t kOldestVersion = 21400;  // which can be connected without blocking
constexpr auto kLook = std::chrono::microseconds(50);

void require_cuda(cudaError_t result, const char* doing) {
    if (result != cudaSuccess) {
        throw Error(
            cat("the GPU failed while ", doing, ": ", cudaGetErrorString(result), " (", cudaGetErrorName(result), ")"));
    }
}

int64_t whole_bytes(int64_t elements) {
    constexpr int64_t kAlignment = 256;
    const int64_t bytes = elements * static_cast<int64_t>(sizeof(int64_t));
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// A transfer waits for all that the device was told to compute, which is on a stream of its own.
void wait_for_device(const IntegerSums& sums) {
    int64_t one = 0;
    sums.read(0, {&one, 1});
}

class Stream {
public:
    Stream() { require_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
    ~Stream() { (void)cudaStreamDestroy(stream_); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    [[nodiscard]] cudaStream_t raw() const { return stream_; }

private:
    cudaStream_t stream_ = nullptr;
};

// A communicator that never blocks: whoever waits for it looks whether all are there, and aborts it if one is not. Other processes
// can then not be hurt by what this one was about to do.
class Communicator {
public:
    Communicator(const std::string& meeting, int64_t rank, int64_t size, std::chrono::milliseconds limit,
                 const std::function<void()>& look)
        : limit_(limit) {
        ncclUniqueId id{};
        if (meeting.size() != sizeof id) {
            throw Error("NCCL's meeting place is of another version");
        }
        std::memcpy(&id, meeting.data(), sizeof id);
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        try {
            accept(ncclCommInitRankConfig(&raw_, static_cast<int>(size), id, static_cast<int>(rank), &config),
                   "connecting");
            wait([this] { return is_idle("connecting"); }, "connecting", look);
        } catch (...) {
            abort();
            throw;
        }
    }
    ~Communicator() { abort(); }
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    // Until everybody's are there.
    void add_up(const int64_t* mine, int64_t* everybodys, int64_t count, const Stream& stream,
                const std::function<void()>& look) {
        constexpr const char* kDoing = "adding up sums";
        accept(ncclAllReduce(mine, everybodys, static_cast<size_t>(count), ncclUint64, ncclSum, raw_, stream.raw()),
               kDoing);
        wait(
            [&] {
                if (!is_idle(kDoing)) {
                    return false;
                }
                const cudaError_t state = cudaStreamQuery(stream.raw());
                if (state == cudaErrorNotReady) {
                    return false;
                }
                require_cuda(state, kDoing);
                return true;
            },
            kDoing, look);
    }

    // At once, whatever the others do.
    void abort() noexcept {
        if (raw_ != nullptr) {
            (void)ncclCommAbort(raw_);
            raw_ = nullptr;
        }
    }

private:
    [[nodiscard]] Error fault(ncclResult_t result, const char* doing) const {
        const char* const last = ncclGetLastError(raw_);
        return Error(cat("NCCL failed while ", doing, ": ", ncclGetErrorString(result),
                         last != nullptr && *last != '\0' ? cat(" (", last, ")") : "",
                         "; NCCL_DEBUG=INFO makes it say more"));
    }
    void accept(ncclResult_t result, const char* doing) const {
        if (result != ncclSuccess && result != ncclInProgress) {
            throw fault(result, doing);
        }
    }
    [[nodiscard]] bool is_idle(const char* doing) const {
        ncclResult_t state = ncclSuccess;
        accept(ncclCommGetAsyncError(raw_, &state), doing);
        accept(state, doing);
        return state == ncclSuccess;
    }
    template <class Done>
    void wait(const Done& done, const char* doing, const std::function<void()>& look) const {
        const auto start = Clock::now();
        while (!done()) {
            look();
            if (Clock::now() - start > limit_) {
                throw RosterChanged(cat("NCCL was ", doing, " for ", limit_.count() / 1000, " s: a member is silent"));
            }
            std::this_thread::sleep_for(kLook);
        }
    }

    ncclComm_t raw_ = nullptr;
    std::chrono::milliseconds limit_;
};

class NcclExchange final : public GpuExchange {
public:
    NcclExchange(const MemberGpu& mine, const std::string& meeting, int64_t rank, int64_t size,
                 const std::function<void()>& look)
        : mine_(mine), size_(size), communicator_(meeting, rank, size, mine.limit, look) {}

    [[nodiscard]] ExchangeChecks add_up(const IntegerSums& sums, uint64_t seed,
                                        const std::function<void()>& look) override;
    void write(const IntegerSums& sums) override;
    [[nodiscard]] int64_t sent_bytes() const override { return sent_bytes_; }

private:
    [[nodiscard]] int64_t* total() const { return reinterpret_cast<int64_t*>(mine_.memory.data()); }
    [[nodiscard]] std::vector<uint64_t> checks_of(const int64_t* values, int64_t elements, uint64_t seed) const;

    MemberGpu mine_;
    int64_t size_;
    Stream stream_;
    Communicator communicator_;
    int64_t sent_bytes_ = 0;
};

// By owner of a range, as members without GPUs check it.
std::vector<uint64_t> NcclExchange::checks_of(const int64_t* values, int64_t elements, uint64_t seed) const {
    std::vector<uint64_t> parts(static_cast<size_t>(mine_.check.parts));
    auto* const on_gpu = reinterpret_cast<uint64_t*>(mine_.memory.data() + whole_bytes(elements));
    std::vector<uint64_t> checks(static_cast<size_t>(size_));
    for (int64_t rank = 0; rank < size_; ++rank) {
        const ElementRange range = owned_range(elements, rank, size_);
        if (range.count > 0) {
            mine_.check.enqueue({values + range.first, static_cast<size_t>(range.count)}, range.first, seed, on_gpu,
                                stream_.raw());
            require_cuda(cudaMemcpyAsync(parts.data(), on_gpu, parts.size() * sizeof(uint64_t), cudaMemcpyDeviceToHost,
                                         stream_.raw()),
                         "checking sums");
            require_cuda(cudaStreamSynchronize(stream_.raw()), "checking sums");
            for (const uint64_t part : parts) {
                checks[static_cast<size_t>(rank)] += part;
            }
        }
    }
    return checks;
}

ExchangeChecks NcclExchange::add_up(const IntegerSums& sums, uint64_t seed, const std::function<void()>& look) {
    if (gpu_exchange_room(sums.elements, mine_.check.parts) > std::ssize(mine_.memory)) {
        throw Error(
            cat("an exchange of ", sums.elements, " sums has no room on the GPU. This is a fault of the program."));
    }
    require_cuda(cudaSetDevice(mine_.number), "beginning");
    wait_for_device(sums);
    const auto* const mine = reinterpret_cast<const int64_t*>(sums.on_device.data());
    ExchangeChecks checks;
    bool is_one_gone = false;
    const auto look_around = [&] {
        try {
            look();
        } catch (...) {
            is_one_gone = true;
            throw;
        }
    };
    try {
        checks.given = checks_of(mine, sums.elements, seed);
        for (int64_t begin = 0; begin < sums.elements; begin += kPieceElements) {
            const int64_t count = std::min(kPieceElements, sums.elements - begin);
            communicator_.add_up(mine + begin, total() + begin, count, stream_, look_around);
        }
    } catch (const Error& error) {
        communicator_.abort();
        *mine_.faults += is_one_gone ? 0 : 1;
        // Most often because a member is gone, which others say more exactly.
        look();
        throw RosterChanged(error.what());
    }
    *mine_.faults = 0;
    sent_bytes_ += cost_of_exchange(sums.elements, size_).sent_bytes;
    checks.total = checks_of(total(), sums.elements, seed);
    return checks;
}

void NcclExchange::write(const IntegerSums& sums) {
    wait_for_device(sums);
    const auto bytes = static_cast<size_t>(sums.elements) * sizeof(int64_t);
    require_cuda(cudaMemcpyAsync(sums.on_device.data(), total(), bytes, cudaMemcpyDeviceToDevice, stream_.raw()),
                 "taking everybody's sums");
    require_cuda(cudaStreamSynchronize(stream_.raw()), "taking everybody's sums");
}

}  // namespace

int64_t gpu_exchange_room(int64_t elements, int64_t check_parts) {
    return whole_bytes(elements) + whole_bytes(check_parts);
}

std::string why_no_nccl() try {
    int version = 0;
    if (ncclGetVersion(&version) != ncclSuccess || version < kOldestVersion) {
        return "the NCCL that was found is too old";
    }
    return "";
} catch (const Error& error) {
    return error.what();
}

std::string name_of_gpu(int number) {
    cudaDeviceProp properties{};
    require_cuda(cudaGetDeviceProperties(&properties, number), "asking for its name");
    constexpr const char* kDigits = "0123456789abcdef";
    std::string name;
    for (const char byte : properties.uuid.bytes) {
        name += kDigits[static_cast<unsigned char>(byte) / 16];
        name += kDigits[static_cast<unsigned char>(byte) % 16];
    }
    return name;
}

std::string nccl_version() {
    int version = 0;
    (void)ncclGetVersion(&version);
    return cat(version / 10000, '.', version / 100 % 100, '.', version % 100);
}

std::string new_nccl_meeting() {
    ncclUniqueId id{};
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
        throw Error(cat("NCCL found no way to be met: ", ncclGetErrorString(result)));
    }
    return {reinterpret_cast<const char*>(&id), sizeof id};
}

std::unique_ptr<GpuExchange> connect_gpus(const MemberGpu& mine, const std::string& meeting, int64_t rank, int64_t size,
                                          const std::function<void()>& look) {
    require_cuda(cudaSetDevice(mine.number), "beginning");
    return std::make_unique<NcclExchange>(mine, meeting, rank, size, look);
}

}  // namespace accrue
