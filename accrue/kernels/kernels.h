#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accrue/base/pool.h"
#include "accrue/kernels/device_traits.h"
#include "accrue/kernels/operations.h"
#include "accrue/tensor/arena.h"
#include "accrue/tensor/byte_source.h"

namespace accrue {

// Sees every operation but transfers, which any thread may ask for: for a stopwatch, for counting.
class OperationWatch {
public:
    virtual ~OperationWatch() = default;
    virtual void begin(const Operation& operation) = 0;
    // What was done since the beginning, or since the last lap, belongs to these parts in these shares.
    struct Share {
        Part part;
        double share = 1;
    };
    virtual void lap(Share most, Share rest) = 0;
    virtual void end() = 0;
};

// A device: does what it is asked to do, in the order in which it is asked.
class Kernels {
public:
    virtual ~Kernels() = default;

    // The device and the instruction set in use, for people.
    [[nodiscard]] virtual std::string description() const = 0;
    [[nodiscard]] virtual Arena& arena() = 0;
    [[nodiscard]] virtual DeviceTraits traits() const { return {}; }
    // What its bits depend on beside the program and the kind of device: architecture, libraries. May ask the device.
    [[nodiscard]] virtual std::string numerics() { return ""; }

    // Views that do not fit together are an error.
    void run(const Operation& operation);
    // What was asked so far is on its way. A device may collect operations until then, or until a download.
    virtual void submit() {}
    // Nothing, or what sees the operations from now on. Must outlive the device, or be replaced.
    void watch(OperationWatch* watch) { watch_ = watch; }

protected:
    // Somebody wants to know how long each operation takes: a device that collects them must wait for each.
    [[nodiscard]] bool is_watched() const { return watch_ != nullptr; }
    // For operations that belong to several parts: says what was done so far.
    void lap(OperationWatch::Share most, OperationWatch::Share rest = {Part::elementwise, 0}) {
        if (watch_ != nullptr) {
            watch_->lap(most, rest);
        }
    }

private:
    virtual void compute(const Operation& operation) = 0;

    OperationWatch* watch_ = nullptr;
};

// Host values, moved to and from a device.
template <class T>
void upload(Kernels& kernels, std::span<const T> host, T* device) {
    kernels.run(
        op::Upload{.host = std::as_bytes(host), .device = {reinterpret_cast<std::byte*>(device), host.size_bytes()}});
}
// Into memory of the device's arena.
template <class T>
[[nodiscard]] Leased<T> uploaded(Kernels& kernels, std::span<const T> host) {
    Leased<T> result = take_matrix<T>(kernels.arena(), 1, static_cast<int64_t>(host.size()));
    upload(kernels, host, result.view.data);
    return result;
}
template <class T>
void download(Kernels& kernels, const T* device, std::span<T> host) {
    kernels.run(op::Download{.device = {reinterpret_cast<const std::byte*>(device), host.size_bytes()},
                             .host = std::as_writable_bytes(host)});
}
template <class T>
[[nodiscard]] std::vector<std::remove_const_t<T>> downloaded(Kernels& kernels, View<T> row) {
    std::vector<std::remove_const_t<T>> host(static_cast<size_t>(row.columns));
    download(kernels, static_cast<const std::remove_const_t<T>*>(row.data), std::span(host));
    return host;
}
// Bytes of a device that are fetched when somebody reads them. Must not outlive it.
[[nodiscard]] ByteSource source_of(Kernels& kernels, std::span<const std::byte> device);
template <class T>
[[nodiscard]] ByteSource source_of(Kernels& kernels, View<T> row) {
    return source_of(kernels, std::as_bytes(std::span(row.data, static_cast<size_t>(row.columns))));
}
// All bytes of a block become 0.
inline void fill_zero(Kernels& kernels, const Arena::Block& block) {
    kernels.run(op::FillZero{{block.data(), static_cast<size_t>(block.bytes())}});
}

}  // namespace accrue
