#include "accrue/kernels/cpu/product.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "accrue/kernels/cpu/linear.h"
#include "accrue/kernels/cpu/product_testing.h"

namespace accrue::cpu {
namespace {

class ProductTest : public InstructionSetsTest {
protected:
    Matrix linear_of(Matrix& input, Matrix& weight, WeightLayout layout, DType output, int threads = 2) {
        const WeightView view{weight.view(), layout};
        Matrix result(output, input.rows, view.out());
        linear(context(threads), input.view(), view, {}, result.view());
        return result;
    }
    // One link of an element's chain; the portable set has no fused multiply-add.
    static float next_in_chain(float x, float y, float sum) {
        return GetParam() == InstructionSet::portable ? x * y + sum : std::fma(x, y, sum);
    }
};

INSTANTIATE_TEST_SUITE_P(Sets, ProductTest, every_set(), test_name);

// Equal bits of every element that a view names.
void expect_same(const Matrix& left, const Matrix& right) {
    ASSERT_EQ(left.rows, right.rows);
    ASSERT_EQ(left.columns, right.columns);
    for (int64_t r = 0; r < left.rows; ++r) {
        for (int64_t c = 0; c < left.columns; ++c) {
            ASSERT_EQ(std::bit_cast<uint32_t>(left.at(r, c)), std::bit_cast<uint32_t>(right.at(r, c)))
                << r << ", " << c;
        }
    }
}

constexpr Extents kExtents[] = {{1, 1, 1},   {7, 65, 63},  {8, 48, 48},    {63, 7, 1},    {65, 100, 49},
                                {130, 1, 7}, {3, 1100, 5}, {9, 2100, 100}, {1, 64, 1000}, {200, 31, 321}};

TEST_P(ProductTest, LinearIsThePlainLoopForAnyShape) {
    for (const DType dtype : kBoth) {
        for (const WeightLayout layout : kLayouts) {
            for (const auto& [rows, in, out] : kExtents) {
                const bool out_in = layout == WeightLayout::out_in;
                Matrix input = random_matrix(dtype, rows, in, 1);
                Matrix weight = random_matrix(dtype, out_in ? out : in, out_in ? in : out, 2);
                const Matrix bias = random_matrix(DType::fp32, 1, out, 3);
                Matrix output(dtype, rows, out);
                linear(context(), input.view(), {weight.view(), layout},
                       View<const float>(bias.floats.data() + 1, 1, out), output.view());
                for (int64_t r = 0; r < rows; ++r) {
                    for (int64_t o = 0; o < out; ++o) {
                        Checked sum;
                        for (int64_t i = 0; i < in; ++i) {
                            sum.add(input.at(r, i), out_in ? weight.at(o, i) : weight.at(i, o));
                        }
                        sum.add(bias.at(0, o), 1);
                        sum.expect_near(output.at(r, o), in, dtype);
                    }
                }
            }
        }
    }
}

TEST_P(ProductTest, InputGradIsThePlainLoopForAnyShape) {
    for (const DType dtype : kBoth) {
        for (const WeightLayout layout : kLayouts) {
            for (const auto& [rows, in, out] : kExtents) {
                const bool out_in = layout == WeightLayout::out_in;
                Matrix d_output = random_matrix(dtype, rows, out, 1);
                Matrix weight = random_matrix(dtype, out_in ? out : in, out_in ? in : out, 2);
                Matrix d_input(DType::fp32, rows, in);
                linear_input_grad(context(), d_output.view(), {weight.view(), layout}, d_input.view());
                for (int64_t r = 0; r < rows; ++r) {
                    for (int64_t i = 0; i < in; ++i) {
                        Checked sum;
                        for (int64_t o = 0; o < out; ++o) {
                            sum.add(d_output.at(r, o), out_in ? weight.at(o, i) : weight.at(i, o));
                        }
                        sum.expect_near(d_input.at(r, i), out, DType::fp32);
                    }
                }
            }
        }
    }
}

// Rows that can be read where they lie give the bits of rows that are packed first, also where they end with half a pair
// and whatever stands behind it.
TEST_P(ProductTest, RowsAreReadWhereTheyLieWithTheSameBits) {
    constexpr int64_t kRows = 45;
    constexpr int64_t kOut = 100;
    for (const int64_t depth : {int64_t{1}, int64_t{64}, int64_t{65}, 4 * kWholeWords + 37}) {
        Matrix input = random_matrix(DType::bf16, kRows, depth, 1);
        Matrix weight = random_matrix(DType::bf16, kOut, depth, 2);
        const int64_t stride = depth + 4 - depth % 2;
        std::vector<Bf16> memory(static_cast<size_t>(kRows * stride), Bf16(std::numeric_limits<float>::quiet_NaN()));
        for (int64_t r = 0; r < kRows; ++r) {
            for (int64_t i = 0; i < depth; ++i) {
                memory[static_cast<size_t>(r * stride + i)] = Bf16(input.at(r, i));
            }
        }
        Matrix output(DType::fp32, kRows, kOut);
        linear(context(), AnyView(memory.data(), DType::bf16, kRows, depth, stride),
               {weight.view(), WeightLayout::out_in}, {}, output.view());
        expect_same(output, linear_of(input, weight, WeightLayout::out_in, DType::fp32));
    }
}

// One fused multiply-add after another, also across slices of the depth. Without vector instructions they are not
// fused.
TEST_P(ProductTest, AnElementIsOneChainInDepthOrder) {
    for (const DType dtype : kBoth) {
        if (packing_of(dtype, GetParam()) == Packing::pairs) {
            continue;
        }
        const int64_t depth = 2 * kWholeWords + 5;
        Matrix input = random_matrix(dtype, 10, depth, 1);
        Matrix weight = random_matrix(dtype, 50, depth, 2);
        const Matrix output = linear_of(input, weight, WeightLayout::out_in, DType::fp32);
        for (int64_t r = 0; r < 10; ++r) {
            for (int64_t o = 0; o < 50; ++o) {
                float sum = 0;
                for (int64_t i = 0; i < depth; ++i) {
                    sum = next_in_chain(input.at(r, i), weight.at(o, i), sum);
                }
                EXPECT_EQ(output.at(r, o), sum) << r << ", " << o;
            }
        }
    }
}

TEST_P(ProductTest, ThreadsDoNotChangeBits) {
    for (const DType dtype : kBoth) {
        Matrix input = random_matrix(dtype, 150, 70, 1);
        Matrix weight = random_matrix(dtype, 250, 70, 2);
        const Matrix one = linear_of(input, weight, WeightLayout::out_in, DType::fp32, 1);
        for (const int threads : {2, 3}) {
            expect_same(linear_of(input, weight, WeightLayout::out_in, DType::fp32, threads), one);
        }
    }
}

TEST_P(ProductTest, RowsAndLayoutsDoNotChangeARowsBits) {
    for (const DType dtype : kBoth) {
        Matrix input = random_matrix(dtype, 40, 333, 1);
        Matrix weight = random_matrix(dtype, 60, 333, 2);
        Matrix turned(dtype, 333, 60);
        for (int64_t o = 0; o < 60; ++o) {
            for (int64_t i = 0; i < 333; ++i) {
                turned.set(i, o, weight.at(o, i));
            }
        }
        const Matrix whole = linear_of(input, weight, WeightLayout::out_in, DType::fp32);
        expect_same(linear_of(input, turned, WeightLayout::in_out, DType::fp32), whole);
        for (const auto& [first, count] : {std::pair{0, 1}, {5, 3}, {13, 27}}) {
            Matrix part(DType::fp32, count, 60);
            linear(context(), input.view().slice_rows(first, count), {weight.view(), WeightLayout::out_in}, {},
                   part.view());
            for (int64_t r = 0; r < count; ++r) {
                for (int64_t o = 0; o < 60; ++o) {
                    ASSERT_EQ(part.at(r, o), whole.at(first + r, o));
                }
            }
        }
    }
}

TEST_P(ProductTest, StoredBf16IsTheFloatResultRoundedOnce) {
    for (const DType dtype : kBoth) {
        Matrix input = random_matrix(dtype, 21, 90, 1);
        Matrix weight = random_matrix(dtype, 53, 90, 2);
        input.set(4, 5, std::numeric_limits<float>::quiet_NaN());
        input.set(6, 5, std::numeric_limits<float>::infinity());
        const Matrix wide = linear_of(input, weight, WeightLayout::out_in, DType::fp32);
        Matrix rounded(DType::bf16, 21, 53);
        for (int64_t r = 0; r < 21; ++r) {
            for (int64_t o = 0; o < 53; ++o) {
                rounded.set(r, o, wide.at(r, o));
            }
        }
        expect_same(linear_of(input, weight, WeightLayout::out_in, DType::bf16), rounded);
        EXPECT_TRUE(std::isnan(wide.at(4, 0)));
        EXPECT_TRUE(std::isinf(wide.at(6, 0)));
        EXPECT_TRUE(std::isfinite(wide.at(5, 0)));
    }
}

TEST_P(ProductTest, ResidualIsAddedAfterBiasAndDropout) {
    Matrix input = random_matrix(DType::fp32, 11, 20, 1);
    Matrix weight = random_matrix(DType::fp32, 70, 20, 2);
    const Matrix bias = random_matrix(DType::fp32, 1, 70, 3);
    Matrix residual = random_matrix(DType::fp32, 11, 70, 4);
    std::vector<uint64_t> rows(11);
    for (size_t r = 0; r < rows.size(); ++r) {
        rows[r] = mix(99, r);
    }
    const Matrix plain = linear_of(input, weight, WeightLayout::out_in, DType::fp32);
    for (const float probability : {0.0F, 0.25F}) {
        const Dropout dropout{.probability = probability, .site = 7, .rows = View<const uint64_t>(rows.data(), 1, 11)};
        Matrix output(DType::fp32, 11, 70);
        linear_residual(context(), input.view(), {weight.view(), WeightLayout::out_in},
                        View<const float>(bias.floats.data() + 1, 1, 70), dropout, residual.view().as<float>(),
                        output.view().as<float>());
        for (int64_t r = 0; r < 11; ++r) {
            for (int64_t o = 0; o < 70; ++o) {
                const uint64_t hash =
                    mix(mix(7, rows[static_cast<size_t>(r)]) + static_cast<uint64_t>(o) * 0x9e3779b97f4a7c15ULL);
                const bool kept = static_cast<double>(hash >> 32) >= probability * 0x1p32;
                const float scaled = (plain.at(r, o) + bias.at(0, o)) * (probability == 0 ? 1 : 1 / (1 - probability));
                EXPECT_EQ(output.at(r, o), residual.at(r, o) + (kept ? scaled : 0)) << r << ", " << o;
            }
        }
    }
}

// Without a copy of the weights they are converted while they are packed, and nobody can tell.
TEST_P(ProductTest, Fp32WeightsGiveTheBitsOfTheirBf16Copy) {
    for (const auto& [rows, in, out] : kExtents) {
        for (const WeightLayout layout : kLayouts) {
            const bool out_in = layout == WeightLayout::out_in;
            Matrix master = random_matrix(DType::fp32, out_in ? out : in, out_in ? in : out, 2);
            master.set(master.rows / 2, master.columns / 2, std::bit_cast<float>(0x3f808000U));  // a tie: to even, down
            master.set(master.rows / 2, master.columns - 1, std::bit_cast<float>(0x3f818000U));  // and up
            master.set(master.rows - 1, 0, std::bit_cast<float>(0x7fffffffU));  // NaN must not become 0
            master.set(master.rows - 1, master.columns - 1, std::numeric_limits<float>::max());  // becomes infinite
            Matrix copy(DType::bf16, master.rows, master.columns);
            for (int64_t r = 0; r < master.rows; ++r) {
                for (int64_t c = 0; c < master.columns; ++c) {
                    copy.set(r, c, master.at(r, c));
                }
            }
            Matrix input = random_matrix(DType::bf16, rows, in, 1);
            expect_same(linear_of(input, master, layout, DType::fp32), linear_of(input, copy, layout, DType::fp32));
            Matrix d_output = random_matrix(DType::bf16, rows, out, 3);
            Matrix from_master(DType::fp32, rows, in);
            Matrix from_copy(DType::fp32, rows, in);
            linear_input_grad(context(), d_output.view(), {master.view(), layout}, from_master.view());
            linear_input_grad(context(), d_output.view(), {copy.view(), layout}, from_copy.view());
            expect_same(from_master, from_copy);
        }
    }
}

TEST_P(ProductTest, ZeroRowsGiveNoOutput) {
    Matrix input(DType::bf16, 0, 30);
    Matrix weight = random_matrix(DType::bf16, 20, 30, 1);
    Matrix output(DType::fp32, 0, 20);
    linear(context(), input.view(), {weight.view(), WeightLayout::out_in}, {}, output.view());
    EXPECT_EQ(arena_.bytes_in_use(), 0);
}

// Several parts of the rows or strips of the columns, with and without slices of the depth.
TEST_P(ProductTest, LargeProductsAreCutWithTheSameBits) {
    for (const auto& [rows, in, out] :
         {Extents{1700, kWholeWords + 8, 3}, {3, kWholeWords + 8, 1700}, {4, 1000, 4500}, {1030, 1152, 768}}) {
        Matrix input = random_matrix(DType::fp32, rows, in, 1);
        Matrix weight = random_matrix(DType::fp32, out, in, 2);
        const ProductPlan plan = plan_product({rows, out, in}, in, 2);
        ASSERT_GT(plan.items.size(), 1);
        ASSERT_EQ(plan.slice_words<in, in> kWholeWords);
        const Matrix whole = linear_of(input, weight, WeightLayout::out_in, DType::fp32);
        for (const int64_t row : {int64_t{0}, rows - 1}) {
            for (int64_t column = 0; column < out; column += 97) {
                float sum = 0;
                for (int64_t i = 0; i < in; ++i) {
                    sum = next_in_chain(input.at(row, i), weight.at(column, i), sum);
                }
                ASSERT_EQ(whole.at(row, column), sum) << row << ", " << column;
            }
        }
    }
}

TEST_P(ProductTest, TheArenaNeedsExactlyTheWorkspace) {
    for (const auto& [rows, in, out] : kExtents) {
        Pool pool(2);
        Arena counted(product_workspace_bytes(rows, out, in, 2));
        Matrix input = random_matrix(DType::bf16, rows, in, 1);
        Matrix weight = random_matrix(DType::bf16, out, in, 2);
        Matrix output(DType::fp32, rows, out);
        linear({pool, counted, GetParam()}, input.view(), {weight.view(), WeightLayout::out_in}, {}, output.view());
        EXPECT_EQ(counted.high_water_bytes(), (product_workspace_bytes(rows, out, in, 2) + 63) / 64 * 64);
        EXPECT_EQ(counted.bytes_in_use(), 0);
    }
}

// What is asked of every plan, for many shapes and threads.
template <class Body>
void for_plans(const Body& body) {
    for (const int64_t rows : {1, 127, 1000, 5000}) {
        for (const int64_t columns : {1, 49, 500, 768, 1024, 2304, 50304}) {
            for (const int64_t words : {1, 384, 1024, 1025, 1152, 1536, 2049, 25152}) {
                for (const int threads : {1, 2, 3, 16, 64}) {
                    const ProductShape shape{rows, columns, words};
                    body(shape, plan_product(shape, words, threads), threads);
                }
            }
        }
    }
}

// Where a strip's words and sums lie in a thread's memory, nothing checks at run time.
TEST(ProductPlanTest, EveryStripFitsIntoItsMemory) {
    for_plans([](const ProductShape& shape, const ProductPlan& plan, int threads) {
        const ProductWorkspace space = lay_out(shape, threads);
        for (const ProductItem& item : plan.items) {
            const int64_t width = round_up(item.end_column - item.first_column, kCellColumns);
            ASSERT_LE(width * plan.slice_words * 4, space.sums);
            ASSERT_LE(width, kStripCells * kCellColumns);
            if (plan.slice_words < shape.depth) {
                ASSERT_LE((item.end_row - item.first_row) * width * 4, space.strip_bytes - space.sums);
            }
        }
    });
}

// Each cell of the grid, in which results are recorded, belongs to one item as a whole.
TEST(ProductPlanTest, EveryElementIsComputedOnce) {
    for_plans([](const ProductShape& shape, const ProductPlan& plan, int) {
        const int64_t cell_columns = pieces_of(shape.columns, kCellColumns);
        std::vector<int> taken(static_cast<size_t>(pieces_of(shape.rows, kCellRows) * cell_columns));
        for (const ProductItem& item : plan.items) {
            ASSERT_EQ(item.first_row % kCellRows, 0);
            ASSERT_EQ(item.first_column % kCellColumns, 0);
            ASSERT_TRUE(item.end_row == shape.rows || item.end_row % kCellRows == 0);
            ASSERT_TRUE(item.end_column == shape.columns || item.end_column % kCellColumns == 0);
            for (int64_t row = item.first_row; row < item.end_row; row += kCellRows) {
                for (int64_t column = item.first_column; column < item.end_column; column += kCellColumns) {
                    ++taken[static_cast<size_t>(row / kCellRows * cell_columns + column / kCellColumns)];
                }
            }
        }
        ASSERT_TRUE(std::ranges::all_of(taken, [](int times) { return times == 1; }));
    });
}

// Columns that are no whole number of cells for each thread cost a thread's time at the end, unless the last are shared.
TEST(ProductPlanTest, TwoThreadsFinishTogether) {
    for (const int64_t columns : {768, 1024, 2304, 2816, 3072, 5632, 50257}) {
        for (const int64_t words : {384, 512, 1408, 1536}) {
            double busy[2] = {0, 0};
            for (const ProductItem& item : plan_product({1024, columns, words}, words, 2).items) {
                double& first_free = *std::min_element(std::begin(busy), std::end(busy));
                first_free +=
                    static_cast<double>((item.end_row - item.first_row) * (item.end_column - item.first_column));
            }
            EXPECT_LT(std::max(busy[0], busy[1]), 1.01 * (busy[0] + busy[1]) / 2) << columns << " x " << words;
        }
    }
}

TEST(ProductPlanTest, TheHeadOfALargeVocabularyNeedsLittleScratch) {
    constexpr int64_t kMost = int64_t{48} << 20;
    EXPECT_LT(product_workspace_bytes(1024, 50304, 768, 16), kMost);
    EXPECT_LT(product_workspace_bytes(1024, 768, 50304, 16), kMost);
    EXPECT_LT(product_workspace_bytes(50304, 768, 1024, 16), kMost);
    EXPECT_LT(product_workspace_bytes(50304, 50304, 50304, 16), kMost);
}

}  // namespace
}  // namespace accrue::cpu
