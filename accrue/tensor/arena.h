#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "accrue/base/long_work.h"
#include "accrue/tensor/backing.h"
#include "accrue/tensor/placement.h"
#include "accrue/tensor/view.h"

namespace accrue {

// The one piece of memory a run computes in: a placement of blocks and the backing that their bytes lie in. Blocks are
// taken and given back in any order. Not for several threads at once.
class Arena {
public:
    // `on_host`: a second piece, in the host's memory, that the device reads and writes as its own, for what a small card
    // has no room for; nothing = there is none.
    explicit Arena(std::unique_ptr<Backing> backing, std::unique_ptr<Backing> on_host = nullptr);
    // Host memory of that many bytes.
    explicit Arena(int64_t bytes) : Arena(make_host_backing(bytes)) {}
    // An arena without memory, for counting: its blocks have addresses that must not be read or written.
    [[nodiscard]] static Arena dry() { return Arena(make_dry_backing(), make_dry_backing()); }
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // A piece of the arena that goes back when it is destroyed. Must not outlive the arena.
    class Block {
    public:
        Block() = default;
        Block(Block&& other) noexcept { *this = std::move(other); }
        Block& operator=(Block&& other) noexcept;
        ~Block() { release(); }
        void release();
        [[nodiscard]] std::byte* data() const;
        [[nodiscard]] int64_t bytes() const { return bytes_; }

    private:
        friend class Arena;
        Arena* arena_ = nullptr;
        int64_t offset_ = 0;
        int64_t bytes_ = 0;
    };

    // A block of at least one byte, aligned to 64; its contents are undefined. An error if the arena has no such gap.
    [[nodiscard]] Block take(int64_t bytes);

    // The piece in the host's memory, which is counted, kept and touched by itself; an error if there is none.
    [[nodiscard]] Arena& on_host();
    // Whether a block of that piece lies there.
    [[nodiscard]] bool is_on_host(const void* place) const { return host_ && host_->holds(place); }

    [[nodiscard]] bool is_dry() const { return !backing_->capacity(); }
    [[nodiscard]] int64_t bytes_in_use() const { return placement_.bytes_in_use(); }
    // The largest extent the blocks ever had: what a real arena needs to hold the same sequence.
    [[nodiscard]] int64_t high_water_bytes() const { return placement_.high_water_bytes(); }
    // Counts the high-water mark anew, from what is taken now.
    void restart_high_water() { placement_.restart_high_water(); }

    // How many bytes may stay in memory. Free pages behind them go back to the system at once. A block may still be
    // placed there, when gaps are too small for it; as long as one is, free pages before them go back too, so that the
    // arena never holds more than the larger of these bytes and its blocks (whole pages of them).
    void keep(int64_t bytes);

    // Takes the pages that may stay from the system, so that a machine without the memory says so now and not in mid-run.
    // What is in the arena stays as it is. Counts bytes.
    void touch(const LongWork& work = {}) { backing_->touch(kept_, work); }

    // While it lives, its thread may read and write what lies in the arena: for operations and transfers (kernels).
    class Access {
    public:
        explicit Access(Arena& arena) : arena_(arena) { arena_.open(); }
        ~Access() { arena_.close(); }
        Access(const Access&) = delete;
        Access& operator=(const Access&) = delete;

    private:
        Arena& arena_;
    };

private:
    void open();
    void close();
    [[nodiscard]] bool holds(const void* place) const;
    void give_back(int64_t offset);
    // The free pages of a range go back to the system.
    void drop_gaps(int64_t first, int64_t last);

    std::unique_ptr<Backing> backing_;
    std::unique_ptr<Arena> host_;
    Placement placement_;
    int64_t kept_ = 0;           // bytes that may stay in memory
    int64_t blocks_behind_ = 0;  // that end behind them
};

// A matrix together with the block it lives in.
template <class T>
struct Leased {
    Arena::Block block;
    View<T> view;
};

struct LeasedAny {
    Arena::Block block;
    AnyView view;
};

template <class T>
[[nodiscard]] Leased<T> take_matrix(Arena& arena, int64_t rows, int64_t columns) {
    Leased<T> result{arena.take(rows * columns * static_cast<int64_t>(sizeof(T))), {}};
    result.view = View<T>(reinterpret_cast<T*>(result.block.data()), rows, columns);
    return result;
}

[[nodiscard]] inline LeasedAny take_any_matrix(Arena& arena, DType dtype, int64_t rows, int64_t columns) {
    LeasedAny result{arena.take(rows * columns * bytes_of(dtype)), {}};
    result.view = AnyView(result.block.data(), dtype, rows, columns);
    return result;
}

}  // namespace accrue
