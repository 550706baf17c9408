#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "accrue/kernels/cuda/library_product.h"
#include "accrue/kernels/cuda/tape.h"

namespace accrue::cuda {

// Matrix products, by the library where a rule is known that keeps their bits, else by kernels of our own.
//
// The rule for Hopper: of cuBLASLt's algorithms only those with id 66 that do not split the reduction. They all have the same
// bits, whatever their tiles, so the fastest may be taken for each size. Which family computes a product is decided by the
// architecture, the library's version and the product's kind (dtypes, layouts, strides, alignment, the weight's extents; in a
// weight gradient the grain's rows too): never by a time, nor by how many rows or grains stand side by side.
class Products {
public:
    // The workspace is the library's, and must outlive the products that were put on a tape. `architecture`: 90 = sm_90.
    Products(std::byte* workspace, int64_t bytes, int architecture, cudaStream_t stream);
    ~Products();
    Products(const Products&) = delete;
    Products& operator=(const Products&) = delete;

    // To be called before algorithms are timed, which overwrites the output of the product in question: everything that was
    // put on the tape so far, and may still read that memory, must then be on the stream. Without it nothing is timed, and
    // the library's first choice is taken.
    void before_timing(std::function<void()> launch_everything) { launch_everything_ = std::move(launch_everything); }

    // Whether the library computes it, or most of it; then Product::library_bias is wanted.
    [[nodiscard]] bool is_for_library(const Product& product) { return library_share(product).columns > 0; }
    // Puts it on the tape. When its shape is new to the library, algorithms may be timed: the output is overwritten then, and
    // inputs are read as they are.
    void put(Tape& tape, const Product& product);

    // Which bits products have, for people and checkpoints: "cuBLASLt 13.1.0 id 66" or "own mma".
    [[nodiscard]] std::string description();

private:
    // A product of the library with the algorithm that was chosen for it.
    struct Prepared {
        LibraryProduct product;
        Algorithm algorithm;
    };

    // The first rows and columns of a product's output, which the library computes.
    struct Share {
        int64_t rows = 0;
        int64_t columns = 0;
    };

    [[nodiscard]] bool has_rule(DType dtype);
    [[nodiscard]] bool check_rule(DType dtype);
    [[nodiscard]] const std::vector<Algorithm>& algorithms_of_kind(const ProductShape& kind);
    [[nodiscard]] Share library_share(const Product& product);
    void put_in_library(Tape& tape, const Product& product);
    [[nodiscard]] std::unique_ptr<Prepared> prepare(const Product& product);
    [[nodiscard]] std::vector<Algorithm> candidates(LibraryProduct& product);
    [[nodiscard]] Algorithm fastest(LibraryProduct& product, const ProductPlaces& places,
                                    const std::vector<Algorithm>& candidates);
    [[nodiscard]] float milliseconds(LibraryProduct& product, const Algorithm& algorithm, const ProductPlaces& places);
    void put_one_by_one(Tape& tape, const Product& product);

    Library library_;
    int architecture_;
    cudaStream_t stream_;
    std::function<void()> launch_everything_;
    std::array<std::optional<bool>, 3> has_rule_;  // of each dtype, once somebody asked
    template <class Value>
    using ByShape = std::unordered_map<ProductShape, Value, ProductShapeHash>;
    ByShape<std::vector<Algorithm>> kinds_;        // none: our own kernels
    ByShape<Algorithm> chosen_;                    // for all sizes that are about the same
    ByShape<std::unique_ptr<Prepared>> prepared_;  // nothing: one product of the batch after the other
};

}  // namespace accrue::cuda
