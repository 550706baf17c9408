#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "accrue/kernels/cuda/device.cuh"

// Matrices as arguments of kernels, and some neighbouring elements of a row at a time: in words of 8 or 16 bytes where all of
// them are aligned and there, else one by one. What is computed with them is the same either way.
namespace accrue::cuda {

// A view as a kernel takes it.
struct Source {
    const void* data = nullptr;
    int64_t stride = 0;
    int64_t dtype = 0;
};
struct Target {
    void* data = nullptr;  // nothing: not wanted
    int64_t stride = 0;
    int64_t dtype = 0;
};
[[nodiscard]] inline Source source_of(const AnyConstView& view) {
    return {.data = view.data, .stride = view.stride, .dtype = static_cast<int64_t>(view.dtype)};
}
[[nodiscard]] inline Target target_of(const AnyView& view) {
    return {.data = view.data, .stride = view.stride, .dtype = static_cast<int64_t>(view.dtype)};
}

// Whether elements c to c + count - 1 of each row can be moved in words, where c is a multiple of `count`, a power of two.
[[nodiscard]] inline bool has_vectors(const AnyConstView& view, int64_t count) {
    const int64_t bytes = count * bytes_of(view.dtype);
    const auto alignment = static_cast<uintptr_t>(bytes < 16 ? bytes : 16);
    return reinterpret_cast<uintptr_t>(view.data) % alignment == 0 && (view.rows <= 1 || view.stride % count == 0);
}

// Any type: known at run time only, moved one by one.
struct AnyType {};
template <class T>
inline constexpr bool kIsAny = std::is_same_v<T, AnyType>;

// Words of 8 bytes, or of 16.
template <int words>
__device__ inline void load_words(const void* from, uint32_t (&to)[words]) {
    if constexpr (words == 2) {
        const uint2 word = *static_cast<const uint2*>(from);
        to[0] = word.x;
        to[1] = word.y;
    } else {
        static_assert(words % 4 == 0);
#pragma unroll
        for (int i = 0; i < words / 4; ++i) {
            const uint4 word = static_cast<const uint4*>(from)[i];
            to[4 * i] = word.x;
            to[4 * i + 1] = word.y;
            to[4 * i + 2] = word.z;
            to[4 * i + 3] = word.w;
        }
    }
}
template <int words>
__device__ inline void store_words(const uint32_t (&from)[words], void* to) {
    if constexpr (words == 2) {
        *static_cast<uint2*>(to) = make_uint2(from[0], from[1]);
    } else {
        static_assert(words % 4 == 0);
#pragma unroll
        for (int i = 0; i < words / 4; ++i) {
            static_cast<uint4*>(to)[i] = make_uint4(from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3]);
        }
    }
}

template <class T, int count>
inline constexpr int kWords = count* static_cast<int>(sizeof(T)) / 4;

// The elements that some words hold.
template <class T, int count>
__device__ inline void unpack(const uint32_t (&words)[kWords<T, count>], float (&values)[count]) {
    if constexpr (std::is_same_v<T, float>) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            values[i] = __uint_as_float(words[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < count / 2; ++i) {
            T pair[2];
            memcpy(pair, &words[i], sizeof(pair));
            values[2 * i] = to_float(pair[0]);
            values[2 * i + 1] = to_float(pair[1]);
        }
    }
}
template <class T, int count>
__device__ inline void pack(const float (&values)[count], uint32_t (&words)[kWords<T, count>]) {
    if constexpr (std::is_same_v<T, float>) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            words[i] = __float_as_uint(values[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < count / 2; ++i) {
            words[i] = packed_pair<T>(values[2 * i], values[2 * i + 1]);
        }
    }
}

template <class T, int count>
__device__ inline void load_vector(const T* from, float (&values)[count]) {
    uint32_t words[kWords<T, count>];
    load_words(from, words);
    unpack<T, count>(words, values);
}
template <class T, int count>
__device__ inline void store_vector(const float (&values)[count], T* to) {
    uint32_t words[kWords<T, count>];
    pack<T, count>(values, words);
    store_words(words, to);
}

// Calls with the type of that dtype, as with_type does on the host.
template <class Call>
__device__ inline void with_type_of(int64_t dtype, const Call& call) {
    if (dtype == static_cast<int64_t>(DType::bf16)) {
        call(TypeTag<bf16>());
    } else if (dtype == static_cast<int64_t>(DType::fp16)) {
        call(TypeTag<fp16>());
    } else {
        call(TypeTag<float>());
    }
}

__device__ inline float load_one(const Source& source, int64_t place) {
    float value = 0;
    with_type_of(source.dtype, [&](auto tag) {
        value = to_float(static_cast<const typename decltype(tag)::type*>(source.data)[place]);
    });
    return value;
}

// Rounded once.
__device__ inline void store_one(float value, const Target& target, int64_t place) {
    with_type_of(target.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        static_cast<T*>(target.data)[place] = from_float<T>(value);
    });
}

// The elements from `place` on: the first `left` of them, the others 0. Of a type that is known, they are aligned, and
// `left` is at least their count, or at most 0.
template <class T, int count>
__device__ inline void load(const Source& source, int64_t place, int64_t left, float (&values)[count]) {
    if constexpr (kIsAny<T>) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            values[i] = i < left ? load_one(source, place + i) : 0.0F;
        }
    } else {
        uint32_t words[kWords<T, count>] = {};
        if (left > 0) {
            load_words(static_cast<const T*>(source.data) + place, words);
        }
        unpack<T, count>(words, values);
    }
}

// The same of whatever type: in words where `vectors` says that they are aligned and where all of them are there.
template <int count>
__device__ inline void load_any(const Source& source, int64_t place, int64_t left, bool vectors,
                                float (&values)[count]) {
    if (!vectors || left < count) {
        load<AnyType>(source, place, left, values);
        return;
    }
    with_type_of(source.dtype, [&](auto tag) {
        load_vector(static_cast<const typename decltype(tag)::type*>(source.data) + place, values);
    });
}

// What the values are after they were stored as that type, and after store_any.
template <class T, int count>
__device__ inline void round_to(float (&values)[count]) {
#pragma unroll
    for (float& value : values) {
        value = to_float(from_float<T>(value));
    }
}
template <int count>
__device__ inline void round_to_any(int64_t dtype, float (&values)[count]) {
    with_type_of(dtype, [&](auto tag) { round_to<typename decltype(tag)::type>(values); });
}

// The first `left` values, rounded once.
template <int count>
__device__ inline void store_any(const float (&values)[count], const Target& target, int64_t place, int64_t left,
                                 bool vectors) {
    with_type_of(target.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        T* to = static_cast<T*>(target.data) + place;
        if (vectors && left >= count) {
            store_vector(values, to);
            return;
        }
#pragma unroll
        for (int i = 0; i < count; ++i) {
            if (i < left) {
                to[i] = from_float<T>(values[i]);
            }
        }
    });
}

}  // namespace accrue::cuda
