#include "accrue/kernels/cuda/cudnn_attention.h"

#include <cstdlib>
#include <map>
#include <set>

#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/cudnn_attention_graph.h"
#include "accrue/kernels/cuda/cudnn_plan.h"
#include "accrue/kernels/cuda/cudnn_segments.h"

namespace accrue::cuda {
namespace {

using Place = CudnnPlan::Place;

// Releases (major and minor) of which it was seen that a segment's bits are its own: bench/gpu_attention.cpp shows it.
constexpr std::array<int64_t, 2> kKnownReleases = {914, 919};
constexpr int64_t kAlignment = 16;  // of all memory, in bytes
constexpr int64_t kMostOffset = int64_t{1} << 31;

// For tests: "0" = cuDNN is not used; "strides" = segments without gaps are read by strides for heads of every size.
bool is_asked_for(std::string_view what) {
    const char* const found = std::getenv("ACCRUE_TEST_CUDNN");
    return found != nullptr && found == what;
}

// Heads that the graphs can read or write where they are.
template <class AnyMatrix>
bool is_readable(const AnyMatrix& view, DType dtype) {
    return view.dtype == dtype && view.stride * bytes_of(dtype) % kAlignment == 0 &&
           reinterpret_cast<uintptr_t>(view.data) % kAlignment == 0;
}

template <class... Views>
bool are_readable(DType dtype, const Views&... views) {
    return (is_readable(views, dtype) && ...);
}

template <class Op>
CudnnAttentionShape graph_shape(const Op& call) {
    const AttentionShape& shape = call.shape;
    const bool is_ragged = !(may_read_by_strides(shape) || is_asked_for("strides")) ||
                           !are_all_longest(call.segments, shape, call.query.rows);
    return {.rows = shape.longest,
            .query_heads = shape.query_heads,
            .key_heads = shape.key_heads,
            .head_size = shape.head_size,
            .is_half = call.query.dtype == DType::fp16 ? 1 : 0,
            .is_ragged = is_ragged ? 1 : 0,
            .scale = shape.scale,
            .query_stride = call.query.stride,
            .key_stride = call.key.stride,
            .value_stride = call.value.stride,
            .output_stride = call.output.stride,
            .log_sum_stride = call.log_sum.stride};
}

CudnnAttentionShape graph_shape_of(const op::Attention& call) {
    return graph_shape(call);
}

CudnnAttentionShape graph_shape_of(const op::AttentionGrad& call) {
    CudnnAttentionShape shape = graph_shape(call);
    shape.is_gradient = 1;
    shape.d_output_stride = call.d_output.stride;
    shape.d_query_stride = call.d_query.stride;
    shape.d_key_stride = call.d_key.stride;
    shape.d_value_stride = call.d_value.stride;
    return shape;
}

// A tensor of which each call takes the rows of its segments.
struct Rows {
    CudnnRole role;
    const void* data;
    int64_t row_bytes;
};

template <class AnyMatrix>
Rows rows_of(CudnnRole role, const AnyMatrix& view) {
    return {role, view.data, view.stride * bytes_of(view.dtype)};
}

template <class Op>
std::vector<Rows> common_rows(const Op& call) {
    return {rows_of(CudnnRole::query, call.query), rows_of(CudnnRole::key, call.key),
            rows_of(CudnnRole::value, call.value), rows_of(CudnnRole::output, call.output),
            Rows{CudnnRole::log_sum, call.log_sum.data, call.log_sum.stride * static_cast<int64_t>(sizeof(float))}};
}

std::vector<Rows> all_rows_of(const op::Attention& call) {
    return common_rows(call);
}

std::vector<Rows> all_rows_of(const op::AttentionGrad& call) {
    std::vector<Rows> all = common_rows(call);
    all.insert(all.end(), {rows_of(CudnnRole::d_output, call.d_output), rows_of(CudnnRole::d_query, call.d_query),
                           rows_of(CudnnRole::d_key, call.d_key), rows_of(CudnnRole::d_value, call.d_value)});
    return all;
}

int64_t most_segments_of(const op::Attention& /*call*/) {
    return kCudnnForwardSegments;
}

int64_t most_segments_of(const op::AttentionGrad& call) {
    return cudnn_backward_segments(call.shape, call.query.rows);
}

int64_t workspace_bytes_of(const op::Attention& /*call*/, int64_t /*segments*/) {
    return cudnn_forward_workspace_bytes();
}

int64_t workspace_bytes_of(const op::AttentionGrad& call, int64_t segments) {
    return cudnn_backward_workspace_bytes(call.shape, segments);
}

void require_small_offsets(const CudnnAttentionShape& shape, int64_t rows) {
    for (const int64_t stride : shape.strides()) {
        if (rows * stride >= kMostOffset) {
            throw Error(cat("attention by cuDNN was given ", rows, " rows of ", stride,
                            " elements, and knows places below 2^31 only. Set window.micro_batch_grains to fewer "
                            "grains."));
        }
    }
}

// Lengths of segments and where they begin, on the device (CudnnScratch).
struct SegmentPlaces {
    const int32_t* lengths = nullptr;
    const int32_t* offsets = nullptr;
};

// Of segments that are all as long as the longest, which are known without a look at the list.
SegmentPlaces known_segments(Context& context, int64_t count, const CudnnAttentionShape& shape) {
    const auto size = static_cast<size_t>(count);
    SegmentPlaces places;
    places.lengths = context.tape.constant(std::vector<int32_t>(size, static_cast<int32_t>(shape.rows)));
    if (shape.is_ragged != 0) {
        std::vector<int32_t> offsets;
        for (const int64_t stride : shape.strides()) {
            for (int64_t i = 0; i <= count; ++i) {
                offsets.push_back(static_cast<int32_t>(i * shape.rows * stride));
            }
        }
        places.offsets = context.tape.constant(offsets);
    }
    return places;
}

SegmentPlaces listed_segments(Context& context, const Segments& segments, const std::vector<int64_t>& strides,
                              const CudnnScratch& memory) {
    CudnnSegmentsArgs args{.segments = segments.list.data,
                           .count = segments.list.columns,
                           .lengths = memory.lengths,
                           .offsets = memory.offsets,
                           .strides = std::ssize(strides)};
    std::ranges::copy(strides, args.stride.begin());
    launch_cudnn_segments(context, args);
    return {.lengths = memory.lengths, .offsets = memory.offsets};
}

}  // namespace

struct CudnnAttention::State {
    explicit State(int of_gpu) : architecture(of_gpu) {}
    ~State() {
        if (handle != nullptr) {
            library->destroy(handle);
        }
    }

    template <class Op>
    [[nodiscard]] bool is_for(const Op& call);
    [[nodiscard]] bool is_there();
    void load();
    [[nodiscard]] const CudnnPlan& plan_for(const CudnnAttentionShape& shape, int64_t most_workspace);
    [[nodiscard]] const std::string& kernel_for(CudnnAttentionShape shape);
    template <class Op>
    void put(Context& context, const Op& call, Scratch scratch);
    void run(const CudnnPlan& plan, std::span<const Place> places, void* workspace, cudaStream_t stream);

    int architecture;
    bool is_looked_for = false;
    std::unique_ptr<Cudnn> library;
    cudnnHandle_t handle = nullptr;
    cudaStream_t stream = nullptr;  // the handle's
    std::string why_not;
    std::map<CudnnAttentionShape, std::unique_ptr<CudnnPlan>> plans;
    std::map<CudnnAttentionShape, std::string> kernels;  // by shapes of one segment
};

void CudnnAttention::State::load() {
    if (is_asked_for("0")) {
        why_not = "ACCRUE_TEST_CUDNN=0 switches it off";
        return;
    }
    library = Cudnn::load(why_not);
    if (library == nullptr) {
        return;
    }
    if (std::ranges::find(kKnownReleases, library->version() / 100) == kKnownReleases.end()) {
        why_not = cat("cuDNN ", library->version_text(), " is not one whose bits are known (9.14, 9.19)");
        library.reset();
        return;
    }
    try {
        library->require(library->create(&handle), "beginning");
        why_not.clear();
    } catch (const Error& error) {
        why_not = error.what();
        handle = nullptr;
    }
}

bool CudnnAttention::State::is_there() {
    if (!is_looked_for) {
        is_looked_for = true;
        load();
    }
    return handle != nullptr;
}

template <class Op>
bool CudnnAttention::State::is_for(const Op& call) {
    const DType dtype = call.query.dtype;
    return is_for_cudnn(call.shape, dtype, architecture) &&
           are_readable(dtype, call.query, call.key, call.value, call.output) && is_there();
}

// All numbers of segments, read by strides or by offsets, are computed by one kernel: the first that is offered for one.
const std::string& CudnnAttention::State::kernel_for(CudnnAttentionShape shape) {
    shape.segments = 1;
    shape.is_ragged = 0;
    std::string& name = kernels[shape];
    if (name.empty()) {
        name = attention_graph(*library, shape).first_kernel({.handle = handle});
    }
    return name;
}

const CudnnPlan& CudnnAttention::State::plan_for(const CudnnAttentionShape& shape, int64_t most_workspace) {
    std::unique_ptr<CudnnPlan>& plan = plans[shape];
    if (plan == nullptr) {
        plan = attention_graph(*library, shape).plan({.handle = handle}, kernel_for(shape));
    }
    if (plan->workspace_bytes() > most_workspace) {
        throw Error(cat("cuDNN ", library->version_text(), " asks for ", plan->workspace_bytes(),
                        " bytes for attention of ", shape.segments, " segments of ", shape.rows, " rows (",
                        plan->name(), "), and a plan expects at most ", most_workspace,
                        ". This is a fault of the program: please report it with your run.toml. Until then: another "
                        "release of cuDNN."));
    }
    return *plan;
}

void CudnnAttention::State::run(const CudnnPlan& plan, std::span<const Place> places, void* workspace,
                                cudaStream_t on) {
    if (stream != on) {
        library->require(library->set_stream(handle, on), "choosing a stream");
        stream = on;
    }
    plan.execute(handle, places, workspace);
}

template <class Op>
void CudnnAttention::State::put(Context& context, const Op& call, Scratch scratch) {
    const int64_t count = call.segments.list.columns;
    if (count == 0 || call.segments.longest == 0) {
        return;
    }
    const CudnnScratch memory = take_cudnn_scratch(scratch, call);
    CudnnAttentionShape shape = graph_shape_of(call);
    const std::vector<int64_t> strides = shape.strides();
    if (shape.is_ragged != 0) {
        require_small_offsets(shape, call.query.rows);
    }
    const auto [lengths, offsets] = are_all_longest(call.segments, call.shape, call.query.rows)
                                        ? known_segments(context, count, shape)
                                        : listed_segments(context, call.segments, strides, memory);

    const std::vector<Rows> all = all_rows_of(call);
    const int64_t most = most_segments_of(call);
    for (int64_t first = 0; first < count; first += shape.segments) {
        shape.segments = cudnn_segments_of_call(count - first, most);
        const CudnnPlan& plan = plan_for(shape, workspace_bytes_of(call, shape.segments));
        std::vector<Place> places = {
            {.tensor = static_cast<int64_t>(CudnnRole::lengths), .memory = const_cast<int32_t*>(lengths + first)}};
        for (const Rows& rows : all) {
            const int64_t skipped = shape.is_ragged != 0 ? 0 : first * shape.rows * rows.row_bytes;
            places.push_back({.tensor = static_cast<int64_t>(rows.role),
                              .memory = const_cast<std::byte*>(static_cast<const std::byte*>(rows.data) + skipped)});
        }
        for (int64_t s = 0; shape.is_ragged != 0 && s < std::ssize(strides); ++s) {
            places.push_back({.tensor = static_cast<int64_t>(CudnnRole::first_offsets) + s,
                              .memory = const_cast<int32_t*>(offsets + s * (count + 1) + first)});
        }
        if (memory.delta != nullptr) {
            places.push_back({.tensor = static_cast<int64_t>(CudnnRole::delta), .memory = memory.delta});
        }
        std::vector<Place> identity = places;
        identity.push_back(
            {.tensor = static_cast<int64_t>(reinterpret_cast<uintptr_t>(&plan)), .memory = memory.workspace});
        context.tape.call([this, &plan, places = std::move(places),
                           workspace = memory.workspace](cudaStream_t on) { run(plan, places, workspace, on); },
                          std::as_bytes(std::span(identity)));
    }
}

CudnnAttention::CudnnAttention(int architecture) : state_(std::make_unique<State>(architecture)) {}

CudnnAttention::~CudnnAttention() = default;

bool CudnnAttention::computes(const op::Attention& call) {
    return state_->is_for(call);
}

bool CudnnAttention::computes(const op::AttentionGrad& call) {
    const DType dtype = call.query.dtype;
    return are_readable(dtype, call.d_output, call.d_query, call.d_key, call.d_value) && state_->is_for(call);
}

void CudnnAttention::put(Context& context, const op::Attention& call, Scratch scratch) {
    state_->put(context, call, scratch);
}

void CudnnAttention::put(Context& context, const op::AttentionGrad& call, Scratch scratch) {
    state_->put(context, call, scratch);
}

std::string CudnnAttention::description() const {
    if (state_->handle == nullptr) {
        return "";
    }
    std::set<std::string> names;
    for (const auto& [shape, name] : state_->kernels) {
        names.insert(name);
    }
    std::string text = cat("cuDNN ", state_->library->version_text());
    for (const std::string& name : names) {
        text += cat(' ', name);
    }
    return text;
}

const std::string& CudnnAttention::why_not() const {
    return state_->why_not;
}

}  // namespace accrue::cuda
