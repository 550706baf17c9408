#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include <cuda_runtime_api.h>

#include "accrue/kernels/cuda/kernel_entry.h"

namespace accrue::cuda {

// How many blocks of how many threads run a kernel.
struct Shape {
    dim3 blocks{1};
    uint32_t threads = 1;
    uint32_t shared_bytes = 0;  // dynamic shared memory; above 48 KiB the tape asks for it
};

// Launches and calls in their order, collected before they run: a sequence that comes again is replayed as one graph.
//
// What decides whether two sequences are the same are their kernels, shapes and arguments, byte by byte. So arguments hold
// only what stays from one micro-batch to the next: places, extents, settings. What changes (units, records, ranges of
// rows, seeds) goes through constants, which are uploaded before each run and are not compared.
class Tape {
public:
    // `constants`: device memory for them, of so many bytes.
    Tape(std::byte* constants, int64_t capacity) : device_constants_(constants), capacity_(capacity) {}

    // A kernel takes one struct of plain values. Its fields should be of 8 bytes or fill 8 bytes together: what lies between
    // fields is compared too.
    template <class Args>
    void launch(void (*kernel)(Args), const Shape& shape, const Args& args) {
        static_assert(std::is_trivially_copyable_v<Args>);
        static_assert(sizeof(Args) <= 4000, "a kernel's arguments have room for 4 KB");
        add_launch(entry_of(kernel), shape, std::as_bytes(std::span(&args, 1)));
    }
    // A library's call, which puts its work on the stream. `identity` holds all that decides what it does: two calls with
    // equal bytes do the same.
    void call(std::function<void(cudaStream_t)> run, std::span<const std::byte> identity);
    template <class Identity>
    void call(std::function<void(cudaStream_t)> run, const Identity& identity) {
        static_assert(std::is_trivially_copyable_v<Identity>);
        call(std::move(run), std::as_bytes(std::span(&identity, 1)));
    }
    void fill_zero(void* memory, int64_t bytes);
    void copy(void* to, const void* from, int64_t bytes);  // on the device

    // Device memory that holds these values while what is on the tape runs. The same sequence of calls with the same sizes
    // gives the same places.
    template <class T>
    const T* constant(std::span<const T> values) {
        static_assert(std::is_trivially_copyable_v<T>);
        return reinterpret_cast<const T*>(add_constant(std::as_bytes(values)));
    }
    template <class T>
    const T* constant(std::span<T> values) {
        return constant(std::span<const T>(values));
    }
    template <class T>
    const T* constant(const std::vector<T>& values) {
        return constant(std::span<const T>(values));
    }

    [[nodiscard]] bool empty() const { return launches_.empty(); }
    [[nodiscard]] int64_t size() const { return std::ssize(launches_); }
    [[nodiscard]] std::span<const std::byte> constants() const { return constants_; }
    [[nodiscard]] std::byte* device_constants() const { return device_constants_; }
    // Everything that decides what it does.
    [[nodiscard]] std::span<const std::byte> identity() const { return identity_; }
    // Puts all of it on the stream.
    void run(cudaStream_t stream) const;
    // Gives back what was on it; the device's memory for constants may be in use until that has run.
    void clear();

private:
    struct Launch {
        const void* kernel = nullptr;  // nothing: a call
        Shape shape = {};
        size_t args = 0;  // where they begin in the identity
        std::function<void(cudaStream_t)> run = nullptr;
    };

    void add_launch(const void* kernel, const Shape& shape, std::span<const std::byte> args);
    // Where bytes were put in the identity.
    template <class T>
    size_t note(std::span<const T> values);
    const std::byte* add_constant(std::span<const std::byte> bytes);

    std::byte* device_constants_;
    int64_t capacity_;
    std::vector<Launch> launches_;
    std::vector<std::byte> identity_;
    std::vector<std::byte> constants_;
};

}  // namespace accrue::cuda
