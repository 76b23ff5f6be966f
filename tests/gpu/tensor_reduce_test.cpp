// Reductions, running sums and places of extremes against the CPU's.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>

#include "gpu/tensor_problem.hpp"
#include "runtime/cpu/ops/order.hpp"
#include "runtime/cpu/ops/reduce.hpp"
#include "support/says.hpp"
#include "tensors/lines.hpp"
#include "tensors/reduce.hpp"

namespace unisono::gpu {
namespace {

using tensors::Launches;

void run(const plan::Expected<Launches>& launches, const std::vector<LaidTensor*>& tensors) {
  ASSERT_TRUE(launches) << launches.refusal().text();
  run_on_gpu(*launches, tensors);
}

constexpr ReduceOp of_floats[] = {ReduceOp::sum,     ReduceOp::mean,       ReduceOp::max, ReduceOp::min,
                                  ReduceOp::prod,    ReduceOp::l1,         ReduceOp::l2,  ReduceOp::sum_square,
                                  ReduceOp::log_sum, ReduceOp::log_sum_exp};
constexpr ReduceOp of_integers[] = {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::prod, ReduceOp::sum_square};

// All of f32; of each other type one, since it is a kernel to compile
std::vector<ReduceOp> operations_of(const ElementType& type, std::size_t number) {
  if (type == stored(DType::f32)) return {std::begin(of_floats), std::end(of_floats)};
  if (type.value == DType::boolean) return {ReduceOp::min};
  const auto list =
      is_float(type.value) ? std::span<const ReduceOp>(of_floats) : std::span<const ReduceOp>(of_integers);
  return {list[number % list.size()]};
}

Extents reduced(Extents shape, const std::vector<int>& axes) {
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (axes.empty() || std::find(axes.begin(), axes.end(), static_cast<int>(i)) != axes.end()) shape[i] = 1;
  return shape;
}

// Both sides sum in float64, in other orders, which of float64 shows
double units_of(DType t) { return t == DType::f64 ? 64 : 2; }

void expect_reduced(ReduceOp op, LaidTensor x, LaidTensor to, const std::vector<int>& axes) {
  run(tensors::reduce({op, axes, true}, x.at, to.at), {&x, &to});
  LaidTensor values = as_valued(x), expected = dense_tensor(stored(x.at.type.value), to.at.shape);
  std::vector<int> all = axes;
  for (std::size_t i = 0; axes.empty() && i < x.at.shape.size(); ++i) all.push_back(static_cast<int>(i));
  cpu::reduce(op, values.view(), all, expected.view(), cpu::serial);
  EXPECT_EQ(difference(to, expected, units_of(x.at.type.value)), "")
      << to_string(x.at.type.memory) << " [" << fmt::format("{}", fmt::join(x.at.shape, ",")) << "], operator "
      << static_cast<int>(op);
}

TEST(TensorSmall, ReductionsOfEveryTypeOverAnyAxes) {
  std::mt19937_64 random(31);
  const ElementType types[] = {stored(DType::f32), stored(DType::f64),    {DType::f32, DType::bf16},
                               stored(DType::i8),  stored(DType::u8),     stored(DType::u32),
                               stored(DType::i64), stored(DType::boolean)};
  const std::vector<std::vector<int>> axes{{}, {0}, {1}, {2}, {0, 2}, {1, 2}};
  std::size_t time = 0;
  for (std::size_t i = 0; i < std::size(types); ++i)
    for (const ReduceOp op : operations_of(types[i], i)) {
      const ElementType& type = types[i];
      const auto& over = axes[time++ % axes.size()];
      const Extents shape{3, 4, 5};
      LaidTensor x = random_layout(type, shape, random);
      const bool truth = type.value == DType::boolean;
      const bool positive = truth || op == ReduceOp::log_sum || type.value == DType::f64;  // nothing cancels
      fill_between(x, random, positive ? 0 : -4, truth ? 1 : 4);
      expect_reduced(op, std::move(x), random_layout(type, reduced(shape, over), random), over);
    }
}

struct TeamCase {
  Extents shape;
  std::vector<int> axes;
  std::string_view how;
};
void expect_reduced_by(const std::vector<TeamCase>& cases, std::mt19937_64& random) {
  for (const TeamCase& c : cases)
    for (const ReduceOp op : {ReduceOp::mean, ReduceOp::log_sum_exp}) {
      LaidTensor x = dense_tensor(stored(DType::f32), c.shape),
                 to = dense_tensor(stored(DType::f32), reduced(c.shape, c.axes));
      fill_between(x, random, -3, 5);
      EXPECT_THAT(tensors::reduce({op, c.axes, true}, x.at, to.at)->list.at(0).how, Says(c.how));
      expect_reduced(op, std::move(x), std::move(to), c.axes);
    }
}

TEST(TensorSmall, ReductionsByTeamsOfEverySize) {
  std::mt19937_64 random(32);
  expect_reduced_by({{{700, 40}, {1}, "a warp a result"},
                     {{3, 5000}, {1}, "a CTA a result"},
                     {{5, 70, 6}, {0, 2}, "a thread a result"}},
                    random);
}

TEST(TensorSmall, ReductionsInParts) {
  std::mt19937_64 random(38);
  expect_reduced_by({{{40000, 8}, {0}, "a thread … result, 625 parts"},
                     {{1000, 8}, {0}, "a warp a result"},
                     {{1, 40000}, {1}, "a CTA … result, 2 parts"}},
                    random);
}

void expect_special_values_reduced(std::span<const ReduceOp> operations, std::mt19937_64& random) {
  for (const ReduceOp op : operations) {
    LaidTensor x = dense_tensor(stored(DType::f32), {60, 4});
    fill_with_edges(x, random);
    expect_reduced(op, std::move(x), dense_tensor(stored(DType::f32), {60, 1}), {1});
    expect_reduced(op, dense_tensor(stored(DType::f32), {3, 0}), dense_tensor(stored(DType::f32), {3, 1}), {1});
  }
}

TEST(TensorSmall, ExtremesOfSpecialValuesAndOfNothing) {
  std::mt19937_64 random(33);
  const ReduceOp extremes[] = {ReduceOp::max, ReduceOp::min};
  expect_special_values_reduced(extremes, random);
}

// Products and logarithms of sums overflow in other orders
TEST(TensorSmall, SumsOfSpecialValuesAndOfNothing) {
  std::mt19937_64 random(39);
  const ReduceOp sums[] = {ReduceOp::sum, ReduceOp::mean,       ReduceOp::l1,
                           ReduceOp::l2,  ReduceOp::sum_square, ReduceOp::log_sum_exp};
  expect_special_values_reduced(sums, random);
  LaidTensor x = dense_tensor(stored(DType::f64), {2, 3});
  const double infinity = std::numeric_limits<double>::infinity();
  const double values[] = {-infinity, -infinity, -infinity, 1, infinity, infinity};
  for (std::int64_t i = 0; i < 6; ++i) set_element(x, i, values[i]);
  expect_reduced(ReduceOp::log_sum_exp, std::move(x), dense_tensor(stored(DType::f64), {2, 1}), {1});
}

// Without the axis that was reduced
TEST(TensorSmall, ResultsMayLackTheReducedAxes) {
  std::mt19937_64 random(34);
  LaidTensor x = channels_last({DType::f32, DType::bf16}, {2, 20, 3, 3}),
             to = dense_tensor({DType::f32, DType::bf16}, {2, 20});
  fill_between(x, random, -3, 5);
  run(tensors::reduce({ReduceOp::mean, {2, 3}, false}, x.at, to.at), {&x, &to});
  LaidTensor values = as_valued(x), expected = dense_tensor(stored(DType::f32), {2, 20, 1, 1});
  cpu::reduce(ReduceOp::mean, values.view(), {2, 3}, expected.view(), cpu::serial);
  expected.at.shape = {2, 20}, expected.at.strides = {20, 1};
  EXPECT_EQ(difference(to, expected, units_of(x.at.type.value)), "");
}

// NaN first, and ties
TEST(TensorSmall, PlacesOfExtremes) {
  std::mt19937_64 random(35);
  for (const DType t : {DType::f32, DType::u8, DType::i64})
    for (const int choice : t == DType::f32 ? std::vector<int>{1, 2} : std::vector<int>{3})
      for (const int axis : {0, 1}) {
        LaidTensor x = random_layout(stored(t), {9, 70}, random);
        fill_with_edges(x, random);
        const operators::ArgReduce op{axis, choice % 2 == 1, true, choice / 2 == 1};
        LaidTensor to = random_layout(stored(DType::i64), reduced(x.at.shape, {axis}), random);
        LaidTensor expected = dense_tensor(to.at.type, to.at.shape);
        run(tensors::arg_reduce(op, x.at, to.at), {&x, &to});
        cpu::arg_reduce(op.smallest, op.last, axis, x.view(), expected.view(), cpu::serial);
        EXPECT_EQ(difference(to, expected), "") << to_string(t) << " " << choice << " " << axis;
      }
}

TEST(TensorSmall, RunningSumsEitherWay) {
  std::mt19937_64 random(36);
  for (const ElementType& type : {stored(DType::f32), ElementType{DType::f32, DType::bf16}, stored(DType::i32)})
    for (int choice = 0; choice < 4; ++choice)
      for (const Extents& shape : {Extents{3, 5, 4}, Extents{2, 1, 75}}) {
        const int axis = shape[1] == 1 ? 2 : choice % 3;
        LaidTensor x = random_layout(type, shape, random), to = random_layout(type, shape, random);
        fill_between(x, random, 0.25, 4);
        const operators::CumulativeSum op{axis, choice % 2 == 1, choice / 2 == 1};
        run(tensors::cumulative_sum(op, x.at, to.at), {&x, &to});
        LaidTensor values = as_valued(x), expected = dense_tensor(stored(type.value), shape);
        cpu::cumulative_sum(axis, op.exclusive, op.reverse, values.view(), expected.view(), cpu::serial);
        EXPECT_EQ(difference(to, expected, 64), "") << to_string(type.memory) << " " << choice;
      }
}

TEST(TensorSmall, PlacesOfTheMostExtremeInOrder) {
  std::mt19937_64 random(37);
  for (const DType t : {DType::f32, DType::i8, DType::i64})
    for (const bool smallest : {false, true})
      for (const int axis : {0, 1}) {
        LaidTensor x = random_layout(stored(t), {40, 9}, random);
        fill_with_edges(x, random);
        Extents shape = x.at.shape;
        shape[static_cast<std::size_t>(axis)] = 5;
        LaidTensor to = random_layout(stored(DType::i64), shape, random), expected = dense_tensor(to.at.type, shape);
        run(tensors::top_k({axis, 5, smallest}, x.at, to.at), {&x, &to});
        const cpu::AlignedBuffer scratch(cpu::top_k_bytes(5));
        cpu::top_k(axis, smallest, x.view(), expected.view(), cpu::serial, {scratch.data(), 1});
        EXPECT_EQ(difference(to, expected), "") << to_string(t) << " " << smallest << " " << axis;
      }
}

}  // namespace
}  // namespace unisono::gpu
