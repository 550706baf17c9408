#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <cudnn_graph.h>

#include "accrue/base/error.h"

namespace accrue::cuda {

// cuDNN's graph interface, looked for when the program runs: it works without, and the release that is found decides.
class Cudnn {
public:
    // Nothing where there is none; `why_not` then says what was missing.
    [[nodiscard]] static std::unique_ptr<Cudnn> load(std::string& why_not);
    ~Cudnn();
    Cudnn(const Cudnn&) = delete;
    Cudnn& operator=(const Cudnn&) = delete;

    [[nodiscard]] int64_t version() const;  // 91900 = 9.19.0
    [[nodiscard]] std::string version_text() const;

    // An error that names what was asked for and what the library answered.
    void require(cudnnStatus_t result, std::string_view doing) const;

    decltype(&cudnnCreate) create = nullptr;
    decltype(&cudnnDestroy) destroy = nullptr;
    decltype(&cudnnSetStream) set_stream = nullptr;
    decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
    decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
    decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
    decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
    decltype(&cudnnBackendFinalize) finalize = nullptr;
    decltype(&cudnnBackendExecute) execute = nullptr;

private:
    explicit Cudnn(void* library) : library_(library) {}
    template <class Function>
    bool find(Function& function, const char* name);
    [[nodiscard]] bool find_all(std::string& why_not);

    void* library_;
    decltype(&cudnnGetVersion) get_version_ = nullptr;
    decltype(&cudnnGetErrorString) error_text_ = nullptr;
    decltype(&cudnnGetLastErrorString) last_error_text_ = nullptr;
};

// What cuDNN calls an attribute's type.
template <class T>
inline constexpr cudnnBackendAttributeType_t kAttributeType = T::is_no_attribute;
template <>
inline constexpr auto kAttributeType<int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr auto kAttributeType<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr auto kAttributeType<char> = CUDNN_TYPE_CHAR;
template <>
inline constexpr auto kAttributeType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto kAttributeType<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr auto kAttributeType<cudnnReduceTensorOp_t> = CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
template <>
inline constexpr auto kAttributeType<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto kAttributeType<cudnnBackendKnobType_t> = CUDNN_TYPE_KNOB_TYPE;
template <>
inline constexpr auto kAttributeType<cudnnHandle_t> = CUDNN_TYPE_HANDLE;

// One of cuDNN's descriptors, of what it is told by attributes until it is complete.
class CudnnDescriptor {
public:
    CudnnDescriptor(const Cudnn& library, cudnnBackendDescriptorType_t type, std::string_view name);
    ~CudnnDescriptor();
    CudnnDescriptor(CudnnDescriptor&& other) noexcept;
    CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;

    template <class T>
    void set(cudnnBackendAttributeName_t attribute, const T& value) {
        set_values(attribute, kAttributeType<T>, 1, &value);
    }
    template <class T, size_t kCount>
    void set(cudnnBackendAttributeName_t attribute, const std::array<T, kCount>& values) {
        set_values(attribute, kAttributeType<T>, kCount, values.data());
    }
    template <class T>
    void set(cudnnBackendAttributeName_t attribute, std::span<const T> values) {
        set_values(attribute, kAttributeType<T>, std::ssize(values), values.data());
    }
    void set(cudnnBackendAttributeName_t attribute, const CudnnDescriptor& other) {
        set_values(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.descriptor_);
    }
    void set_descriptors(cudnnBackendAttributeName_t attribute, std::span<const cudnnBackendDescriptor_t> others) {
        set_values(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(others), others.data());
    }
    void set_places(cudnnBackendAttributeName_t attribute, std::span<void* const> places) {
        set_values(attribute, CUDNN_TYPE_VOID_PTR, std::ssize(places), places.data());
    }
    // No more attributes come.
    void complete();

    template <class T>
    [[nodiscard]] T get(cudnnBackendAttributeName_t attribute) const {
        T value{};
        get_values(attribute, kAttributeType<T>, 1, &value);
        return value;
    }
    // Descriptors must exist before the library fills them. Returns how many it has, which may be more.
    int64_t get_descriptors(cudnnBackendAttributeName_t attribute, std::span<const cudnnBackendDescriptor_t> to) const {
        return get_values(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(to), const_cast<void**>(to.data()));
    }

    [[nodiscard]] cudnnBackendDescriptor_t raw() const { return descriptor_; }

private:
    void set_values(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, int64_t count,
                    const void* values);
    int64_t get_values(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, int64_t count,
                       void* values) const;

    const Cudnn* library_;
    std::string_view name_;
    cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace accrue::cuda
