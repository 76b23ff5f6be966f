// Wrong arguments are refused before anything reaches the driver, with a message that says what was expected.

#include "runtime/cuda/arguments.hpp"

#include <gmock/gmock.h>

#include <bit>
#include <functional>

#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::cuda {
namespace {

using ::testing::HasSubstr;
using Field = codegen::Field;

// y and h [2,4,5,16], mean [2,4]; bias [16], r [2,4,5,16], temb [2,16], and the scalars gain (default 1), shift, step
class CudaArguments : public ::testing::Test {
 protected:
  CudaArguments() {
    s.contraction = Conv2d{.n = 2,
                           .h = 4,
                           .w = 5,
                           .c = 8,
                           .k = 16,
                           .r = 3,
                           .s = 3,
                           .pad = {1, 1, 1, 1},
                           .dtype_x = DType::bf16,
                           .dtype_w = DType::bf16};
    s.operands = {"bias", "r", "temb", "gain", "shift", "step"};
    s.defaults = {{"gain", 1.0}};
    s.stores = {{0, DType::bf16, "h"}, {0, DType::bf16, "y"}, {0, DType::f32, "mean"}};
    s.store_axes = {axes::mn, axes::mn, {RowAxis::b, ColAxis::g, 4}};
    s.main_store = 1;
    s.side_store = 0;
    s.fields = {{Field::Kind::operand_pointer, "bias", DType::f32, axes::n},
                {Field::Kind::operand_pointer, "r", DType::bf16, axes::mn},
                {Field::Kind::operand_pointer, "temb", DType::bf16, axes::bn},
                {Field::Kind::operand_value, "gain", DType::f32, axes::scalar},
                {Field::Kind::operand_value, "shift", DType::f32, axes::scalar},
                {Field::Kind::operand_value, "step", DType::i32, axes::scalar},
                {Field::Kind::store_pointer, "mean", DType::f32, {RowAxis::b, ColAxis::g, 4}}};
    const std::vector<std::int64_t> mn{2, 4, 5, 16};
    a.image = {at(0), DType::bf16, {2, 4, 5, 8}, {}};
    a.filter = {at(1), DType::bf16, {16, 3, 3, 8}, {}};
    a.operands["bias"] = {at(2), DType::f32, {16}, {}};
    a.operands["r"] = {at(3), DType::bf16, mn, {}};
    a.operands["temb"] = {at(4), DType::bf16, {2, 16}, {}};
    a.scalars = {{"shift", 0.5}, {"step", -3}};
    a.outputs["h"] = {at(5), DType::bf16, mn, {}};
    a.outputs["y"] = {at(6), DType::bf16, mn, {}};
    a.outputs["mean"] = {at(7), DType::f32, {2, 4}, {}};
  }

  // Never read or written: addresses only
  static void* at(std::uintptr_t i, std::uintptr_t offset = 0) {
    return reinterpret_cast<void*>(0x100000 * (i + 1) + offset);
  }

  void expect_refusal(const std::function<void(Arguments&)>& change, const std::string& message) {
    Arguments changed = a;
    change(changed);
    try {
      bind_arguments(s, changed);
      FAIL() << "accepted; expected: " << message;
    } catch (const UserError& e) {
      EXPECT_THAT(e.what(), Says(message));
    }
  }

  Signature s;
  Arguments a;
};

TEST_F(CudaArguments, WhatIsMadeOfTheMainStore) {
  s.resampled = {.pooled = "p", .upsampled = "e"};
  expect_refusal([](Arguments&) {}, "output e (upsampled y) is not bound; give … shape (2,8,10,16)");
  a.outputs["e"] = {at(20), DType::bf16, {2, 8, 10, 16}, {10 * 8 * 24, 10 * 24, 24, 1}};
  expect_refusal([](Arguments&) {}, "output p (pooled y) is not bound; give … shape (2,2,2,16)");
  a.outputs["p"] = {at(21), DType::bf16, {2, 2, 2, 16}, {}};
  const BoundArguments b = bind_arguments(s, a);
  EXPECT_EQ(b.output, at(6));
  EXPECT_EQ(b.upsampled, at(20));
  EXPECT_EQ(b.upsampled_pitch, 24);
  EXPECT_EQ(b.pooled, at(21));
  EXPECT_EQ(b.pooled_pitch, 0);
  expect_refusal([](Arguments& x) { x.outputs["p"].shape[1] = 3; }, "output p (pooled y)");
  expect_refusal([](Arguments& x) { x.outputs["p"].data = x.outputs["y"].data; }, "share memory");
  s.resampled = {.upsampled = "e", .only_upsampled = true};
  expect_refusal([](Arguments& x) { x.outputs.erase("p"); }, "Arguments::outputs has y");
  a.outputs.erase("p"), a.outputs.erase("y");
  EXPECT_EQ(bind_arguments(s, a).output, nullptr);
}

TEST_F(CudaArguments, MomentsOfTheMainStore) {
  s.moments = "moments", s.moments_shape = {2, 3, 8, 4};
  expect_refusal([](Arguments&) {},
                 "output moments (statistics of y) are not bound; give … shape (2,3,8,4) and dtype f32");
  a.outputs["moments"] = {at(20), DType::f32, {2, 3, 8, 4}, {}};
  EXPECT_EQ(bind_arguments(s, a).moments, at(20));
  expect_refusal([](Arguments& x) { x.outputs["moments"].shape[1] = 4; }, "output moments (statistics of y)");
  expect_refusal([](Arguments& x) { x.outputs["moments"].data = x.outputs["y"].data; }, "share memory");
}

TEST_F(CudaArguments, Bound) {
  const BoundArguments b = bind_arguments(s, a);
  EXPECT_EQ(b.a, at(0));
  EXPECT_EQ(b.b, at(1));
  EXPECT_EQ(b.output, at(6));
  EXPECT_EQ(b.side, at(5));
  const auto address = [](void* p) { return reinterpret_cast<std::uint64_t>(p); };
  const std::vector<std::uint64_t> fields{address(at(2)),
                                          address(at(3)),
                                          address(at(4)),
                                          std::bit_cast<std::uint32_t>(1.f),
                                          std::bit_cast<std::uint32_t>(0.5f),
                                          std::bit_cast<std::uint32_t>(-3),
                                          address(at(7))};
  EXPECT_EQ(b.fields.bits, fields);
  EXPECT_EQ(b.pointers.size(), 8u) << "all but the scalars";
}

// Images of a range of columns: the kernel is told how far apart they lie, or it takes them dense
TEST_F(CudaArguments, ImagesThatLieApart) {
  const auto apart = [](Arguments& x) { x.operands["temb"].strides = {40, 1}; };
  expect_refusal(apart, "operand temb[b,n] was given strides (40,1)");
  s.fields.push_back({Field::Kind::pitch, "temb", DType::i32, axes::scalar});
  EXPECT_EQ(bind_arguments(s, a).fields.bits.back(), 16u);
  expect_refusal([](Arguments& x) { x.operands["temb"].strides = {40, 2}; }, "operand temb[b,n] was given strides");
  expect_refusal([](Arguments& x) { x.operands["temb"].strides = {std::int64_t{1} << 31, 1}; }, "elements to 2^31");
  apart(a);
  const BoundArguments b = bind_arguments(s, a);
  EXPECT_EQ(b.fields.bits.back(), 40u);
  EXPECT_EQ(b.pointers.size(), 8u);
}

TEST_F(CudaArguments, FactorsOfAnotherContraction) {
  expect_refusal([](Arguments& x) { std::swap(x.filter, x.right); },
                 "Arguments::right was given to a convolution, which multiplies Arguments::image and filter");
  expect_refusal([](Arguments& x) { x.image = {}; }, "the image is not bound; give … shape (2,4,5,8) and dtype bf16");
}

TEST_F(CudaArguments, ConstantFilterIsNotRead) {
  s.reads_b = false;
  a.filter = {};
  EXPECT_EQ(bind_arguments(s, a).b, nullptr);
}

TEST_F(CudaArguments, Names) {
  expect_refusal([](Arguments& x) { x.operands.erase("bias"); },
                 "operand bias[n] is not bound; give … shape (16) and dtype f32");
  expect_refusal([](Arguments& x) { x.outputs.erase("y"); },
                 "output y[m,n] is not bound; give … shape (2,4,5,16) and dtype bf16");
  expect_refusal([](Arguments& x) { x.outputs.erase("mean"); }, "output mean[b,g4] is not bound; give … shape (2,4)");
  expect_refusal([](Arguments& x) { x.operands["biass"] = x.operands["bias"]; }, "did you mean 'bias'?");
  expect_refusal([](Arguments& x) { x.scalars["gian"] = 1; }, "did you mean 'gain'?");
  expect_refusal([](Arguments& x) { x.outputs["z"] = x.outputs["y"]; }, "its stores are h, y, mean");
  expect_refusal([](Arguments& x) { x.scalars["bias"] = 1; }, "bound twice");
}

TEST_F(CudaArguments, Scalars) {
  expect_refusal([](Arguments& x) { x.scalars.erase("shift"); }, "operand shift[] is not bound; give a number");
  expect_refusal([](Arguments& x) { x.scalars["step"] = 0.5; }, "expected an integer of 32 bits");
  expect_refusal([](Arguments& x) { x.scalars["step"] = 3e9; }, "expected an integer of 32 bits");
  expect_refusal(
      [](Arguments& x) {
        x.operands["gain"] = {at(9), DType::f32, {}, {}};
      },
      "expected a number in Arguments::scalars");
  expect_refusal([](Arguments& x) { x.operands.erase("temb"), x.scalars["temb"] = 1; }, "bind … shape (2,16)");
}

TEST_F(CudaArguments, ShapesDtypesAndStrides) {
  expect_refusal([](Arguments& x) { x.operands["bias"].shape = {8}; },
                 "operand bias[n] was given shape (8); expected (16)");
  expect_refusal([](Arguments& x) { x.operands["bias"].dtype = DType::bf16; }, "was given dtype bf16; expected f32");
  expect_refusal(
      [](Arguments& x) {
        x.image.shape = {2, 8, 4, 5};
      },
      "the image was given shape (2,8,4,5); expected (2,4,5,8)");
  expect_refusal([](Arguments& x) { x.image.dtype = DType::f32; }, "the image was given dtype f32; expected bf16");
  expect_refusal(
      [](Arguments& x) {
        x.filter.shape = {16, 8, 3, 3};
      },
      "the filter was given shape (16,8,3,3); expected (16,3,3,8)");
  expect_refusal([](Arguments& x) { x.outputs["y"].dtype = DType::f16; },
                 "output y[m,n] was given dtype f16; expected bf16");
  expect_refusal([](Arguments& x) { x.image.strides = {160, 40, 8}; }, "3 strides");
  expect_refusal(
      [](Arguments& x) {
        x.image.strides = {240, 60, 12, 1};
      },
      "rows 12 elements apart; expected a multiple of 16");
  expect_refusal([](Arguments& x) { x.image.strides = {640, 160, 16, 1}; }, "make a dense copy");  // lines apart
  expect_refusal([](Arguments& x) { x.operands["r"].strides = {640, 160, 32, 1}; }, "make a dense copy");
  expect_refusal([](Arguments& x) { x.outputs["h"].strides = {320, 80, 1, 5}; }, "make a dense copy");
  expect_refusal([](Arguments& x) { x.operands["bias"].strides = {0}; }, "make a dense copy");
  expect_refusal([](Arguments& x) { x.operands["bias"].strides = {-1}; }, "none below 0");
}

TEST_F(CudaArguments, DenseStridesAreWelcome) {
  a.image.strides = {160, 40, 8, 1};
  a.operands["bias"].strides = {1};
  EXPECT_NO_THROW(bind_arguments(s, a));
}

// The image and the main output may be slices of wider tensors
TEST_F(CudaArguments, RowsApart) {
  a.image.strides = {320, 80, 16, 1};
  a.outputs["y"].strides = {800, 200, 40, 1};
  const BoundArguments b = bind_arguments(s, a);
  EXPECT_EQ(b.a_pitch, 16);
  EXPECT_EQ(b.output_pitch, 40);
  // beside each other in one tensor, and on top of each other
  a.outputs["y"] = {at(0, 2 * 8), DType::bf16, {2, 4, 5, 16}, {480, 120, 24, 1}};
  a.image.strides = {480, 120, 24, 1};
  EXPECT_NO_THROW(bind_arguments(s, a));
  expect_refusal([](Arguments& x) { x.outputs["y"].data = at(0); }, "shares memory with the image");
  a.image.strides = {};
  EXPECT_EQ(bind_arguments(s,
                           [&] {
                             Arguments dense = a;
                             dense.outputs["y"] = {at(6), DType::bf16, {2, 4, 5, 16}, {}};
                             return dense;
                           }())
                .a_pitch,
            0);
}

TEST_F(CudaArguments, Pointers) {
  expect_refusal([](Arguments& x) { x.filter.data = nullptr; }, "the filter … null pointer");
  expect_refusal([](Arguments& x) { x.image.data = at(0, 8); }, "expected a multiple of 16 bytes");
  expect_refusal([](Arguments& x) { x.outputs["y"].data = at(6, 2); }, "expected a multiple of 16 bytes");
  expect_refusal([](Arguments& x) { x.outputs["h"].data = at(5, 8); }, "expected a multiple of 16 bytes");
  expect_refusal([](Arguments& x) { x.operands["r"].data = at(3, 4); }, "expected a multiple of 16 bytes");
  expect_refusal([](Arguments& x) { x.operands["bias"].data = at(2, 2); }, "expected a multiple of 4 bytes");
  expect_refusal([](Arguments& x) { x.operands["temb"].data = at(4, 1); }, "expected a multiple of 2 bytes");
  expect_refusal([](Arguments& x) { x.outputs["mean"].data = at(7, 2); }, "expected a multiple of 4 bytes");
}

TEST_F(CudaArguments, SharedMemory) {
  expect_refusal([](Arguments& x) { x.outputs["y"].data = const_cast<void*>(x.image.data); },
                 "output y[m,n] shares memory with the image");
  expect_refusal([](Arguments& x) { x.outputs["y"].data = const_cast<void*>(x.operands["r"].data); },
                 "shares memory with operand r[m,n]");
  expect_refusal([](Arguments& x) { x.outputs["h"].data = x.outputs["y"].data; }, "share memory; give each its own");
  expect_refusal([](Arguments& x) { x.outputs["mean"].data = at(2, 60); }, "shares memory with operand bias[n]");
  a.outputs["mean"].data = at(2, 64);  // behind the bias
  EXPECT_NO_THROW(bind_arguments(s, a));
}

// Three products: A (3,8,16), B (3,24,16)
TEST(CudaProducts, MatricesOfABatchMayLieApart) {
  Signature s;
  s.contraction =
      Gemm{.batch = 3, .m = 8, .n = 24, .k = 16, .transpose_b = true, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
  s.stores = {{0, DType::bf16, "y"}};
  s.store_axes = {axes::mn};
  s.main_store = 0;
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
  Arguments a;
  a.left = {at(0x100000), DType::bf16, {3, 8, 16}, {136, 16, 1}};
  a.right = {at(0x200000), DType::bf16, {3, 24, 16}, {}};
  a.outputs["y"] = {at(0x300000), DType::bf16, {3, 8, 24}, {}};
  BoundArguments bound = bind_arguments(s, a);
  EXPECT_EQ(bound.step_a, 136);
  EXPECT_EQ(bound.step_b, 0);
  a.outputs["y"].data = at(0x100000 + 2 * (2 * 136 + 128));  // right after the last of A
  EXPECT_NO_THROW(bind_arguments(s, a));
  a.outputs["y"].data = at(0x100000 + 2 * (2 * 136 + 128) - 16);
  EXPECT_THROW(bind_arguments(s, a), UserError);
  a.outputs["y"].data = at(0x300000);
  for (const std::int64_t step : {0, 120, 132}) {
    a.left.strides[0] = step;
    try {
      bind_arguments(s, a);
      ADD_FAILURE() << "accepted " << step;
    } catch (const UserError& e) {
      EXPECT_THAT(e.what(), Says("from one matrix … expected a multiple of 8 from 128 on"));
    }
  }
  a.left.strides = {136, 24, 1};
  EXPECT_THROW(bind_arguments(s, a), UserError);
}

// One product: A (8,16), B (24,16), with rows of A and of the result apart
TEST(CudaProducts, MatricesWithoutABatch) {
  Signature s;
  s.contraction = Gemm{.m = 8, .n = 24, .k = 16, .transpose_b = true, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
  s.operands = {"r"};
  s.fields = {{Field::Kind::operand_pointer, "r", DType::bf16, axes::mn}};
  s.stores = {{0, DType::bf16, "y"}};
  s.store_axes = {axes::mn};
  s.main_store = 0;
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
  Arguments a;
  a.left = {at(0x100000), DType::bf16, {8, 16}, {24, 1}};
  a.right = {at(0x200000), DType::bf16, {24, 16}, {}};
  a.operands["r"] = {at(0x400000), DType::bf16, {8, 24}, {}};
  a.outputs["y"] = {at(0x300000), DType::bf16, {8, 24}, {32, 1}};
  const BoundArguments matrices = bind_arguments(s, a);
  EXPECT_EQ(matrices.a_pitch, 24);
  EXPECT_EQ(matrices.output_pitch, 32);
  a.left = {at(0x100000), DType::bf16, {1, 8, 16}, {192, 24, 1}};
  a.right.shape = {1, 24, 16};
  a.operands["r"].shape = {1, 8, 24};
  a.outputs["y"] = {at(0x300000), DType::bf16, {1, 8, 24}, {256, 32, 1}};
  const BoundArguments batch = bind_arguments(s, a);
  EXPECT_EQ(batch.a_pitch, matrices.a_pitch);
  EXPECT_EQ(batch.fields.bits, matrices.fields.bits);
  EXPECT_EQ(batch.b, matrices.b);
  a.right.shape = {16, 24};
  EXPECT_THROW(bind_arguments(s, a), UserError);
}

// dY is `left` and the image `right`; both are dense
TEST(CudaArgumentsOfGradients, AreLeftAndRight) {
  Signature s;
  FilterGradient2d g{.n = 2, .h = 4, .w = 5, .c = 8, .k = 16, .r = 3, .s = 3, .pad = 1};
  g.dtype_y = g.dtype_x = DType::bf16;
  s.contraction = g;
  s.stores = {{0, DType::f32, "dw"}};
  s.store_axes = {axes::mn};
  s.main_store = 0;
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
  Arguments a;
  a.left = {at(0x100000), DType::bf16, {2, 4, 5, 16}, {}};
  a.right = {at(0x200000), DType::bf16, {2, 4, 5, 8}, {}};
  a.outputs["dw"] = {at(0x300000), DType::f32, {16, 3, 3, 8}, {}};
  const BoundArguments bound = bind_arguments(s, a);
  EXPECT_EQ(bound.a.data, at(0x100000));
  EXPECT_EQ(bound.b.data, at(0x200000));
  EXPECT_EQ(bound.output.data, at(0x300000));
  a.left.strides = {4 * 5 * 24, 5 * 24, 24, 1};
  EXPECT_THROW(bind_arguments(s, a), UserError);
  a.left.strides = {}, a.image = a.right;
  EXPECT_THROW(bind_arguments(s, a), UserError);
}

// One B for each group; these may lie apart
TEST(CudaArgumentsOfGroups, HaveARightMatrixEach) {
  Signature s;
  s.contraction = Gemm{.m = 8,
                       .n = 24,
                       .k = 16,
                       .transpose_b = true,
                       .dtype_a = DType::bf16,
                       .dtype_b = DType::bf16,
                       .group_rows = {3, 5}};
  s.stores = {{0, DType::bf16, "y"}};
  s.store_axes = {axes::mn};
  s.main_store = 0;
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
  Arguments a;
  a.left = {at(0x100000), DType::bf16, {8, 16}, {24, 1}};
  a.right = {at(0x200000), DType::bf16, {2, 24, 16}, {512, 16, 1}};
  a.outputs["y"] = {at(0x300000), DType::bf16, {8, 24}, {}};
  const BoundArguments bound = bind_arguments(s, a);
  EXPECT_EQ(bound.a_pitch, 24);
  EXPECT_EQ(bound.step_b, 512);
  a.right.shape = {24, 16}, a.right.strides = {};
  EXPECT_THROW(bind_arguments(s, a), UserError) << "one for both groups";
}

}  // namespace
}  // namespace unisono::cuda
