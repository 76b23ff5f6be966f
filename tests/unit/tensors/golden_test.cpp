// The texts of tensor kernels are those that are recorded, one of each kind.

#include <gtest/gtest.h>

#include <string>

#include "support/golden.hpp"
#include "support/sources.hpp"
#include "tensors/caller.hpp"
#include "tensors/indexed.hpp"
#include "tensors/lines.hpp"
#include "tensors/map.hpp"
#include "tensors/moves.hpp"
#include "tensors/reduce.hpp"
#include "tensors/windows.hpp"

namespace unisono::tensors {
namespace {

const std::string folder = test::source_path("tests/golden/tensors/");

StridedTensor dense(ElementType type, const Extents& shape) { return {type, shape, row_major_strides(shape)}; }

TEST(GoldenTensors, Fixed) {
  test::expect_golden(folder + "moves.cu", move_kernel("move", 2).source);
  test::expect_golden(folder + "transposes.cu", move_kernel("transpose", 2).source);
  test::expect_golden(folder + "indexed.cu", indexed_kernel("gather", 2).source);
  test::expect_golden(folder + "caller.cu", caller_kernel("enter", stored(DType::i64)).source);
}

TEST(GoldenTensors, Elementwise) {
  const ElementType f32 = stored(DType::f32), in_bf16{DType::f32, DType::bf16}, i64 = stored(DType::i64);
  const MapProgram program{{in_bf16, f32, i64},
                           {{operators::Map{MapOp::less}, {0, 1}},
                            {operators::Map{MapOp::mod}, {2, 2}},
                            {operators::Map{MapOp::cast, DType::f32}, {4}},
                            {operators::Elementwise{Op::gelu, {}}, {0}},
                            {operators::Map{MapOp::select}, {3, 6, 5}}},
                           {{7, in_bf16}, {3, stored(DType::boolean)}}};
  test::expect_golden(folder + "map.cu", map_text(program, 4).kernel.source);
}

TEST(GoldenTensors, FoldsAndLines) {
  const ElementType in_bf16{DType::f32, DType::bf16}, i64 = stored(DType::i64);
  const StridedTensor x = dense(in_bf16, {6, 5000});
  test::expect_golden(folder + "mean.cu",
                      reduce({ReduceOp::mean, {1}, true}, x, dense(in_bf16, {6, 1})).value().list.at(0).source);
  test::expect_golden(folder + "places.cu",
                      arg_reduce({.axis = 0}, x, dense(i64, {1, 5000})).value().list.at(0).source);
  test::expect_golden(folder + "running_sums.cu", cumulative_sum({.axis = 1}, x, x).value().list.at(0).source);
  test::expect_golden(folder + "top.cu", top_k({.axis = 1}, x, dense(i64, {6, 1})).value().list.at(0).source);
}

TEST(GoldenTensors, Products) {
  const ElementType in_bf16{DType::f32, DType::bf16}, f32 = stored(DType::f32);
  test::expect_golden(
      folder + "products.cu",
      matmul(dense(in_bf16, {5, 3}), dense(f32, {3, 4}), dense(in_bf16, {5, 4})).value().list.at(0).source);
}

TEST(GoldenTensors, Scatters) {
  const ElementType i32 = stored(DType::i32);
  const Scattered s{dense(i32, {6, 4}), dense(stored(DType::i64), {3, 1}), dense(i32, {3, 4}), dense(i32, {6, 4}),
                    true};
  test::expect_golden(folder + "scatter_lines.cu", scatter_nd({ScatterReduction::max}, s).value().list.at(0).source);
}

}  // namespace
}  // namespace unisono::tensors
