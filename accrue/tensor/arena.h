#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "accrue/base/long_work.h"
#include "accrue/tensor/view.h"

namespace accrue {

// The one piece of memory a run computes in. Blocks are taken and given back in any order; places are chosen by first
// fit, so the same sequence of takes gives the same offsets and the same high-water mark, on a real arena and on a dry
// one. Not for several threads at once.
class Arena {
public:
    // Real memory of that many bytes, on huge pages where the system has them.
    explicit Arena(int64_t bytes);
    // An arena without memory, for counting: its blocks have addresses that must not be read or written.
    [[nodiscard]] static Arena dry() { return Arena(); }
    ~Arena();
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

    [[nodiscard]] bool is_dry() const { return capacity_ < 0; }
    [[nodiscard]] int64_t bytes_in_use() const { return in_use_; }
    // The largest extent the blocks ever had: what a real arena needs to hold the same sequence.
    [[nodiscard]] int64_t high_water_bytes() const { return high_water_; }

    // Counts the high-water mark anew, from what is taken now.
    void restart_high_water();

    // How many bytes may stay in memory. Free pages behind them go back to the system at once. A block may still be
    // placed there, when gaps are too small for it; as long as one is, free pages before them go back too, so that the
    // arena never holds more than the larger of these bytes and its blocks (whole pages of them).
    void keep(int64_t bytes);

    // Writes one byte in each page that may stay, so that a machine without the memory says so now and not in mid-run.
    // What is in the arena stays as it is. Counts bytes.
    void touch(const LongWork& work = {});

private:
    Arena();
    void give_back(int64_t offset);
    // The free pages of a range go back to the system.
    void drop(int64_t first, int64_t last);
    void drop_gaps(int64_t first, int64_t last);

    void* mapping_ = nullptr;
    std::byte* base_ = nullptr;
    int64_t capacity_ = -1;
    int64_t kept_ = 0;           // bytes that may stay in memory
    int64_t blocks_behind_ = 0;  // that end behind them
    int64_t in_use_ = 0;
    int64_t high_water_ = 0;
    std::map<int64_t, int64_t> taken_;  // offset -> rounded bytes
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
