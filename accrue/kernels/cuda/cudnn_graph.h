#pragma once

#include <deque>
#include <initializer_list>
#include <optional>
#include <vector>

#include "accrue/kernels/cuda/cudnn_library.h"

namespace accrue::cuda {

// Of which GPU a plan is made: of a handle's, or of one that is only described.
struct CudnnTarget {
    cudnnHandle_t handle = nullptr;
    const CudnnDescriptor* properties = nullptr;
};

// What a graph became: kernels for one GPU, and what they need.
class CudnnPlan {
public:
    // A tensor of the graph and where it lies.
    struct Place {
        int64_t tensor = 0;
        void* memory = nullptr;
    };

    // Puts its kernels on the handle's stream.
    void execute(cudnnHandle_t handle, std::span<const Place> places, void* workspace) const;
    [[nodiscard]] int64_t workspace_bytes() const { return workspace_bytes_; }
    // Of the kernel that was chosen: "eng2_k24=7" is engine 2 with the choice 7 for knob 24.
    [[nodiscard]] const std::string& name() const { return name_; }

private:
    friend class CudnnGraph;
    CudnnPlan(const Cudnn& library, std::string_view name);

    const Cudnn* library_;
    std::deque<CudnnDescriptor> graph_;  // what the plan was made from
    std::deque<float> values_;           // of the graph's scalars, read when it is executed
    std::vector<Place> scalars_;
    CudnnDescriptor plan_;
    std::string name_;
    int64_t workspace_bytes_ = 0;
};

// Operations on tensors of four extents, to be computed together.
class CudnnGraph {
public:
    using Extents = std::array<int64_t, 4>;
    struct Tensor {
        int64_t number = 0;  // who it is when the plan is executed
        cudnnBackendDescriptor_t raw = nullptr;
        Extents extents{};
    };

    explicit CudnnGraph(const Cudnn& library) : library_(library) {}

    struct Memory {
        int64_t number = 0;
        cudnnDataType_t type = CUDNN_DATA_FLOAT;
        Extents extents{};
        Extents strides{};
        const Tensor* offsets = nullptr;  // where each of the first extent begins, in elements; nothing = by its stride
    };
    Tensor memory(const Memory& of);
    Tensor scalar(float value);
    // That exists inside of a kernel only; without gaps where no strides are given.
    Tensor between(cudnnDataType_t type, const Extents& extents);
    Tensor between(cudnnDataType_t type, const Extents& extents, const Extents& strides,
                   const Tensor* offsets = nullptr);

    struct Pointwise {
        cudnnPointwiseMode_t mode = CUDNN_POINTWISE_IDENTITY;
        cudnnDataType_t compute = CUDNN_DATA_FLOAT;
        cudnnDataType_t result = CUDNN_DATA_FLOAT;
        std::optional<int64_t> axis = std::nullopt;
    };
    // Of up to three inputs; the output has the extents of the first.
    Tensor pointwise(const Pointwise& how, std::initializer_list<const Tensor*> inputs);
    void pointwise(const Pointwise& how, std::initializer_list<const Tensor*> inputs, const Tensor& output);
    Tensor pointwise(cudnnPointwiseMode_t mode, std::initializer_list<const Tensor*> inputs) {
        return pointwise({.mode = mode}, inputs);
    }

    void reduce(cudnnReduceTensorOp_t how, const Tensor& input, const Tensor& output);
    // The same elements in another order of the extents.
    void reshape(const Tensor& input, const Tensor& output);

    // How many rows, columns and summands of each matrix count, one number for each of the first extent.
    struct Lengths {
        const Tensor* rows = nullptr;
        const Tensor* columns = nullptr;
        const Tensor* summands = nullptr;
    };
    void multiply(const Tensor& left, const Tensor& right, const Tensor& output, const Lengths& lengths);

    // The name of the kernel that the library offers first; an error where it has none. The graph is used up.
    [[nodiscard]] std::string first_kernel(const CudnnTarget& target) &&;
    // By the kernel of this name, an error where that is not offered. The graph is used up.
    [[nodiscard]] std::unique_ptr<CudnnPlan> plan(const CudnnTarget& target, std::string_view kernel) &&;

private:
    // A kernel that the library offers for the graph.
    struct Offer {
        CudnnDescriptor config;
        std::string name;
    };
    [[nodiscard]] std::vector<Offer> offers(const CudnnTarget& target);
    CudnnDescriptor& add(cudnnBackendDescriptorType_t type, std::string_view name);
    Tensor add_tensor(const Memory& of, bool is_between, bool is_scalar);
    void finish_operation(CudnnDescriptor& operation);

    const Cudnn& library_;
    std::deque<CudnnDescriptor> descriptors_;
    std::vector<cudnnBackendDescriptor_t> operations_;
    std::deque<float> values_;
    std::vector<CudnnPlan::Place> scalars_;
    int64_t next_ = 1000;  // for tensors without a number of their own
};

}  // namespace accrue::cuda
