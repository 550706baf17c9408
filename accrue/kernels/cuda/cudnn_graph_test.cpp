#include <gtest/gtest.h>

#include "accrue/kernels/cuda/cudnn_attention_graph.h"
#include "accrue/kernels/cuda/cudnn_plan.h"
#include "accrue/kernels/gpus.h"

// What the library says of our graphs. Needs cuDNN; kernels are offered only where a GPU for them is.
namespace accrue::cuda {
namespace {

struct Tried {
    int64_t segments;
    AttentionShape shape;
    int64_t is_ragged;
    int64_t is_half;
};

std::vector<Tried> all_tried() {
    const AttentionShape gpt2{.query_heads = 12, .key_heads = 12, .head_size = 64, .longest = 1024};
    const AttentionShape llama{.query_heads = 32, .key_heads = 8, .head_size = 128, .longest = 2048};
    const AttentionShape odd{.query_heads = 6, .key_heads = 3, .head_size = 64, .longest = 17};
    return {{1, gpt2, 0, 0}, {8, gpt2, 1, 1}, {4, llama, 1, 0}, {2, odd, 1, 0}};
}

// Rows of [queries | keys | values].
CudnnAttentionShape graph_shape(const Tried& tried, int64_t is_gradient) {
    const AttentionShape& shape = tried.shape;
    const int64_t row = (shape.query_heads + 2 * shape.key_heads) * shape.head_size;
    CudnnAttentionShape graph{.is_gradient = is_gradient,
                              .segments = tried.segments,
                              .rows = shape.longest,
                              .query_heads = shape.query_heads,
                              .key_heads = shape.key_heads,
                              .head_size = shape.head_size,
                              .is_half = tried.is_half,
                              .is_ragged = tried.is_ragged,
                              .scale = 0.1F,
                              .query_stride = row,
                              .key_stride = row,
                              .value_stride = row,
                              .output_stride = shape.query_heads * shape.head_size,
                              .log_sum_stride = shape.query_heads};
    if (is_gradient != 0) {
        graph.d_output_stride = graph.output_stride;
        graph.d_query_stride = graph.d_key_stride = graph.d_value_stride = row;
    }
    return graph;
}

class CudnnGraphTest : public testing::Test {
protected:
    void SetUp() override {
        std::string why_not;
        library_ = Cudnn::load(why_not);
        if (library_ == nullptr) {
            GTEST_SKIP() << why_not;
        }
    }

    std::unique_ptr<Cudnn> library_;
};

TEST_F(CudnnGraphTest, TheLibraryTakesEveryOperation) {
    for (const Tried& tried : all_tried()) {
        for (const int64_t is_gradient : {0, 1}) {
            EXPECT_NO_THROW(static_cast<void>(attention_graph(*library_, graph_shape(tried, is_gradient))));
        }
    }
}

TEST_F(CudnnGraphTest, AnErrorNamesTheCallAndTheAnswer) {
    try {
        CudnnDescriptor(*library_, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor").complete();
        FAIL() << "a tensor without extents was taken";
    } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("cuDNN " + library_->version_text()), std::string::npos) << text;
        EXPECT_NE(text.find("a tensor"), std::string::npos) << text;
        EXPECT_NE(text.find("CUDNN_STATUS_"), std::string::npos) << text;
    }
}

TEST_F(CudnnGraphTest, AKernelTakesNoMoreMemoryThanPlannedWhateverTheSegments) {
    if (architecture_of_gpu(0) != 90) {
        GTEST_SKIP() << "the table has cuDNN for sm_90, which GPU 0 is not";
    }
    CudnnTarget target;
    library_->require(library_->create(&target.handle), "beginning");
    for (const Tried& tried : all_tried()) {
        for (const int64_t is_gradient : {0, 1}) {
            const CudnnAttentionShape shape = graph_shape(tried, is_gradient);
            CudnnAttentionShape one = shape;
            one.segments = 1;
            one.is_ragged = 0;
            const std::string kernel = attention_graph(*library_, one).first_kernel(target);
            const auto plan = attention_graph(*library_, shape).plan(target, kernel);
            EXPECT_EQ(plan->name(), kernel);
            EXPECT_LE(plan->workspace_bytes(), is_gradient != 0
                                                   ? cudnn_backward_workspace_bytes(tried.shape, tried.segments)
                                                   : cudnn_forward_workspace_bytes());
        }
    }
    library_->destroy(target.handle);
}

}  // namespace
}  // namespace accrue::cuda
