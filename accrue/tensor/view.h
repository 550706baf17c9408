#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "accrue/base/error.h"
#include "accrue/tensor/dtype.h"

namespace accrue {

// A matrix in somebody else's memory: rows are contiguous and `stride` elements apart. A vector is a matrix of one row.
template <class T>
struct View {
    T* data = nullptr;
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t stride = 0;

    View() = default;
    View(T* data_, int64_t rows_, int64_t columns_) : View(data_, rows_, columns_, columns_) {}
    View(T* data_, int64_t rows_, int64_t columns_, int64_t stride_)
        : data(data_), rows(rows_), columns(columns_), stride(stride_) {}
    // A View<T> is a View<const T>.
    template <class U>
        requires(std::is_same_v<const U, T> && !std::is_const_v<U>)
    View(const View<U>& other) : View(other.data, other.rows, other.columns, other.stride) {}

    [[nodiscard]] T* row(int64_t r) const { return data + r * stride; }
    [[nodiscard]] int64_t elements() const { return rows * columns; }
    [[nodiscard]] bool empty() const { return data == nullptr; }
    [[nodiscard]] View slice_rows(int64_t first, int64_t count) const { return {row(first), count, columns, stride}; }
    [[nodiscard]] View slice_columns(int64_t first, int64_t count) const { return {data + first, rows, count, stride}; }
};

// A matrix whose element type, fp32, bf16 or fp16, is known at run time: what passes between layers.
template <class Void>
struct BasicAnyView {
    template <class T>
    using Like = std::conditional_t<std::is_const_v<Void>, const T, T>;

    Void* data = nullptr;
    DType dtype = DType::fp32;
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t stride = 0;

    BasicAnyView() = default;
    BasicAnyView(Void* data_, DType dtype_, int64_t rows_, int64_t columns_)
        : BasicAnyView(data_, dtype_, rows_, columns_, columns_) {}
    BasicAnyView(Void* data_, DType dtype_, int64_t rows_, int64_t columns_, int64_t stride_)
        : data(data_), dtype(dtype_), rows(rows_), columns(columns_), stride(stride_) {}
    template <class T>
        requires(std::is_convertible_v<T*, Void*> &&
                 (std::is_same_v<std::remove_const_t<T>, float> || std::is_same_v<std::remove_const_t<T>, Bf16> ||
                  std::is_same_v<std::remove_const_t<T>, Fp16>))
    BasicAnyView(const View<T>& view)
        : BasicAnyView(view.data, dtype_of<std::remove_const_t<T>>, view.rows, view.columns, view.stride) {}
    template <class V>
        requires(std::is_same_v<const V, Void> && !std::is_const_v<V>)
    BasicAnyView(const BasicAnyView<V>& other)
        : BasicAnyView(other.data, other.dtype, other.rows, other.columns, other.stride) {}

    // The same matrix with its element type; an error if it is another one.
    template <class T>
    [[nodiscard]] View<Like<T>> as() const {
        if (dtype != dtype_of<T>) {
            throw Error(cat("a kernel was given ", name_of(dtype), " where it takes ", name_of(dtype_of<T>)));
        }
        return {static_cast<Like<T>*>(data), rows, columns, stride};
    }
    [[nodiscard]] Void* row(int64_t r) const {
        using Byte = Like<std::byte>;
        return static_cast<Byte*>(data) + r * stride * bytes_of(dtype);
    }
    [[nodiscard]] int64_t elements() const { return rows * columns; }
    [[nodiscard]] bool empty() const { return data == nullptr; }
    [[nodiscard]] BasicAnyView slice_rows(int64_t first, int64_t count) const {
        return {row(first), dtype, count, columns, stride};
    }
    [[nodiscard]] BasicAnyView slice_columns(int64_t first, int64_t count) const {
        using Byte = Like<std::byte>;
        return {static_cast<Byte*>(data) + first * bytes_of(dtype), dtype, rows, count, stride};
    }
};

using AnyView = BasicAnyView<void>;
using AnyConstView = BasicAnyView<const void>;

}  // namespace accrue
