#include "accrue/tensor/backing.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include <sys/mman.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kPage = 4096;

int64_t round_up(int64_t bytes, int64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

class HostBacking : public Backing {
public:
    explicit HostBacking(int64_t bytes) : capacity_(round_up(std::max<int64_t>(bytes, 1), kHugePage)) {
        // One huge page more than asked, so that the base can be aligned to one.
        void* memory = mmap(nullptr, static_cast<size_t>(capacity_ + kHugePage), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            throw Error(cat("cannot reserve ", bytes, " bytes of memory: ", std::strerror(errno),
                            ". Choose a smaller model or window.micro_batch_grains, or free memory."));
        }
        mapping_ = memory;
        base_ = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<intptr_t>(memory), kHugePage));
        madvise(base_, static_cast<size_t>(capacity_), MADV_HUGEPAGE);
    }
    ~HostBacking() override { munmap(mapping_, static_cast<size_t>(capacity_ + kHugePage)); }
    HostBacking(const HostBacking&) = delete;
    HostBacking& operator=(const HostBacking&) = delete;

    [[nodiscard]] std::byte* base() const override { return base_; }
    [[nodiscard]] std::optional<int64_t> capacity() const override { return capacity_; }

    // Pages that a neighbour shares stay.
    void give_back(int64_t first, int64_t last) override {
        const int64_t start = round_up(first, kPage);
        const int64_t end = last / kPage * kPage;
        if (start < end) {
            madvise(base_ + start, static_cast<size_t>(end - start), MADV_DONTNEED);
        }
    }

    void touch(int64_t bytes, const LongWork& work) override {
        constexpr int64_t kPiece = 16 * kHugePage;
        WorkCount count(work, bytes);
        work.run((bytes + kPiece - 1) / kPiece, [&](int64_t item) {
            const int64_t first = item * kPiece;
            const int64_t end = std::min(first + kPiece, bytes);
            for (int64_t offset = first; offset < end; offset += kPage) {
                // Adds nothing, in one access: to read first would map a page of zeros, which the write replaces again.
                __atomic_fetch_or(reinterpret_cast<unsigned char*>(base_ + offset), 0, __ATOMIC_RELAXED);
            }
            count.add(end - first);
        });
    }

private:
    int64_t capacity_;
    void* mapping_ = nullptr;
    std::byte* base_ = nullptr;
};

class DryBacking final : public Backing {
public:
    // Below any mapping a process has and above the null page: a read or write there faults.
    [[nodiscard]] std::byte* base() const override { return reinterpret_cast<std::byte*>(kPage); }
    [[nodiscard]] std::optional<int64_t> capacity() const override { return std::nullopt; }
    void give_back(int64_t, int64_t) override {}
    void touch(int64_t, const LongWork&) override {}
};

class GuardedBacking final : public HostBacking {
public:
    explicit GuardedBacking(int64_t bytes) : HostBacking(bytes) { protect(PROT_NONE); }

    void touch(int64_t bytes, const LongWork& work) override {
        open();
        HostBacking::touch(bytes, work);
        close();
    }
    void open() override {
        const std::lock_guard lock(mutex_);
        if (users_++ == 0) {
            protect(PROT_READ | PROT_WRITE);
        }
    }
    void close() override {
        const std::lock_guard lock(mutex_);
        if (--users_ == 0) {
            protect(PROT_NONE);
        }
    }

private:
    void protect(int protection) {
        if (mprotect(base(), static_cast<size_t>(*capacity()), protection) != 0) {
            throw Error(cat("cannot guard the memory of a device: ", std::strerror(errno)));
        }
    }

    std::mutex mutex_;
    int64_t users_ = 0;
};

}  // namespace

std::unique_ptr<Backing> make_host_backing(int64_t bytes) {
    return std::make_unique<HostBacking>(bytes);
}

std::unique_ptr<Backing> make_dry_backing() {
    return std::make_unique<DryBacking>();
}

std::unique_ptr<Backing> make_guarded_backing(int64_t bytes) {
    return std::make_unique<GuardedBacking>(bytes);
}

}  // namespace accrue
