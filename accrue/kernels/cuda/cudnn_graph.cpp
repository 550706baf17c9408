#include "accrue/kernels/cuda/cudnn_graph.h"

#include <algorithm>

namespace accrue::cuda {
namespace {

// Of a tensor's memory, in bytes: what products read is read 16 bytes at a time.
int64_t alignment_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_BFLOAT16 || type == CUDNN_DATA_HALF ? 16 : 4;
}

CudnnGraph::Extents strides_without_gaps(const CudnnGraph::Extents& extents) {
    return {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
}

// As many empty descriptors, to be filled by the library.
std::deque<CudnnDescriptor> empty_descriptors(const Cudnn& library, cudnnBackendDescriptorType_t type,
                                              std::string_view name, int64_t count) {
    std::deque<CudnnDescriptor> all;
    for (int64_t i = 0; i < count; ++i) {
        all.emplace_back(library, type, name);
    }
    return all;
}

std::vector<cudnnBackendDescriptor_t> raw_of(const std::deque<CudnnDescriptor>& descriptors) {
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const CudnnDescriptor& descriptor : descriptors) {
        raw.push_back(descriptor.raw());
    }
    return raw;
}

std::string name_of(const Cudnn& library, const CudnnDescriptor& config) {
    const CudnnDescriptor engine(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine");
    config.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, std::array{engine.raw()});
    std::string name = cat("eng", engine.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
    const auto knobs =
        empty_descriptors(library, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, "a choice", CUDNN_KNOB_TYPE_COUNTS);
    const auto raw = raw_of(knobs);
    const int64_t count = config.get_descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, raw);
    for (int64_t i = 0; i < std::min<int64_t>(count, CUDNN_KNOB_TYPE_COUNTS); ++i) {
        const CudnnDescriptor& knob = knobs[static_cast<size_t>(i)];
        name += cat("_k", static_cast<int>(knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)), '=',
                    knob.get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
    }
    return name;
}

}  // namespace

CudnnPlan::CudnnPlan(const Cudnn& library, std::string_view name)
    : library_(&library), plan_(library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "an execution plan"), name_(name) {}

void CudnnPlan::execute(cudnnHandle_t handle, std::span<const Place> places, void* workspace) const {
    std::vector<int64_t> tensors;
    std::vector<void*> memory;
    for (const std::span<const Place> all : {places, std::span<const Place>(scalars_)}) {
        for (const Place& place : all) {
            tensors.push_back(place.tensor);
            memory.push_back(place.memory);
        }
    }
    CudnnDescriptor pack(*library_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "the places of a graph's tensors");
    pack.set_places(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::array{workspace});
    pack.set_places(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, memory);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(tensors));
    pack.complete();
    library_->require(library_->execute(handle, plan_.raw(), pack.raw()), cat("starting ", name_));
}

CudnnDescriptor& CudnnGraph::add(cudnnBackendDescriptorType_t type, std::string_view name) {
    return descriptors_.emplace_back(library_, type, name);
}

CudnnGraph::Tensor CudnnGraph::add_tensor(const Memory& of, bool is_between, bool is_scalar) {
    CudnnDescriptor& tensor = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
    tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, of.type);
    tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, of.extents);
    tensor.set(CUDNN_ATTR_TENSOR_STRIDES, of.strides);
    tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, of.number);
    tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment_of(of.type));
    if (is_between) {
        tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    }
    if (is_scalar) {
        tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
    }
    if (of.offsets != nullptr) {
        tensor.set_descriptors(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, std::array{of.offsets->raw});
    }
    tensor.complete();
    return {.number = of.number, .raw = tensor.raw(), .extents = of.extents};
}

CudnnGraph::Tensor CudnnGraph::memory(const Memory& of) {
    return add_tensor(of, false, false);
}

CudnnGraph::Tensor CudnnGraph::scalar(float value) {
    const int64_t number = next_++;
    values_.push_back(value);
    scalars_.push_back({.tensor = number, .memory = &values_.back()});
    return add_tensor({.number = number, .extents = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}}, false, true);
}

CudnnGraph::Tensor CudnnGraph::between(cudnnDataType_t type, const Extents& extents) {
    return between(type, extents, strides_without_gaps(extents));
}

CudnnGraph::Tensor CudnnGraph::between(cudnnDataType_t type, const Extents& extents, const Extents& strides,
                                       const Tensor* offsets) {
    return add_tensor({.number = next_++, .type = type, .extents = extents, .strides = strides, .offsets = offsets},
                      true, false);
}

CudnnGraph::Tensor CudnnGraph::pointwise(const Pointwise& how, std::initializer_list<const Tensor*> inputs) {
    const Tensor output = between(how.result, (*inputs.begin())->extents);
    pointwise(how, inputs, output);
    return output;
}

void CudnnGraph::pointwise(const Pointwise& how, std::initializer_list<const Tensor*> inputs, const Tensor& output) {
    constexpr std::array kInputs = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                    CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    CudnnDescriptor& function = add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "a function of elements");
    function.set(CUDNN_ATTR_POINTWISE_MODE, how.mode);
    function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, how.compute);
    if (how.axis) {
        function.set(CUDNN_ATTR_POINTWISE_AXIS, *how.axis);
    }
    function.complete();
    CudnnDescriptor& operation = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "an operation on elements");
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
    size_t i = 0;
    for (const Tensor* input : inputs) {
        operation.set_descriptors(kInputs[i++], std::array{input->raw});
    }
    operation.set_descriptors(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, std::array{output.raw});
    finish_operation(operation);
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t how, const Tensor& input, const Tensor& output) {
    CudnnDescriptor& function = add(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "a reduction");
    function.set(CUDNN_ATTR_REDUCTION_OPERATOR, how);
    function.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    function.complete();
    CudnnDescriptor& operation = add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "an operation that reduces");
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, function);
    operation.set_descriptors(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, std::array{input.raw});
    operation.set_descriptors(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, std::array{output.raw});
    finish_operation(operation);
}

void CudnnGraph::reshape(const Tensor& input, const Tensor& output) {
    CudnnDescriptor& operation = add(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "an operation that reshapes");
    operation.set_descriptors(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, std::array{input.raw});
    operation.set_descriptors(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, std::array{output.raw});
    finish_operation(operation);
}

void CudnnGraph::multiply(const Tensor& left, const Tensor& right, const Tensor& output, const Lengths& lengths) {
    CudnnDescriptor& product = add(CUDNN_BACKEND_MATMUL_DESCRIPTOR, "a product");
    product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    product.complete();
    CudnnDescriptor& operation = add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "an operation that multiplies");
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product);
    operation.set_descriptors(CUDNN_ATTR_OPERATION_MATMUL_ADESC, std::array{left.raw});
    operation.set_descriptors(CUDNN_ATTR_OPERATION_MATMUL_BDESC, std::array{right.raw});
    operation.set_descriptors(CUDNN_ATTR_OPERATION_MATMUL_CDESC, std::array{output.raw});
    const auto limit = [&operation](cudnnBackendAttributeName_t attribute, const Tensor* by) {
        if (by != nullptr) {
            operation.set_descriptors(attribute, std::array{by->raw});
        }
    };
    limit(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, lengths.rows);
    limit(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, lengths.columns);
    limit(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, lengths.summands);
    finish_operation(operation);
}

void CudnnGraph::finish_operation(CudnnDescriptor& operation) {
    operation.complete();
    operations_.push_back(operation.raw());
}

std::vector<CudnnGraph::Offer> CudnnGraph::offers(const CudnnTarget& target) {
    CudnnDescriptor& graph = add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph of operations");
    graph.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
    if (target.handle != nullptr) {
        graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
    }
    graph.complete();

    CudnnDescriptor& choice = add(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "the choice of a kernel");
    choice.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    choice.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
    if (target.properties != nullptr) {
        choice.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
    }
    choice.complete();
    const int64_t most = choice.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, {});
    auto configs = empty_descriptors(library_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "a kernel's choices", most);
    const int64_t count = most > 0 ? choice.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, raw_of(configs)) : 0;
    std::vector<Offer> all;
    for (int64_t i = 0; i < std::min(count, most); ++i) {
        CudnnDescriptor& config = configs[static_cast<size_t>(i)];
        std::string name = name_of(library_, config);
        all.push_back({.config = std::move(config), .name = std::move(name)});
    }
    return all;
}

std::string CudnnGraph::first_kernel(const CudnnTarget& target) && {
    const std::vector<Offer> all = offers(target);
    if (all.empty()) {
        throw Error(cat("cuDNN ", library_.version_text(), " has no kernel for a graph of attention"));
    }
    return all.front().name;
}

std::unique_ptr<CudnnPlan> CudnnGraph::plan(const CudnnTarget& target, std::string_view kernel) && {
    std::vector<Offer> all = offers(target);
    const auto found = std::ranges::find(all, kernel, &Offer::name);
    if (found == all.end()) {
        std::string names;
        for (const Offer& offer : all) {
            names += cat(names.empty() ? "" : ", ", offer.name);
        }
        throw Error(cat("cuDNN ", library_.version_text(), " has no kernel ", kernel,
                        " for a graph of attention: ", names.empty() ? "none" : names));
    }
    std::unique_ptr<CudnnPlan> made(new CudnnPlan(library_, kernel));
    made->plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, found->config);
    if (target.properties != nullptr) {
        made->plan_.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
    }
    made->plan_.complete();
    made->workspace_bytes_ = made->plan_.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    descriptors_.push_back(std::move(found->config));
    made->graph_ = std::move(descriptors_);
    made->values_ = std::move(values_);
    made->scalars_ = std::move(scalars_);
    return made;
}

}  // namespace accrue::cuda
