// Products, pools, resamples, grid samples and convolutions of volumes, one output a thread.

#include <gtest/gtest.h>

#include <cmath>

#include "gpu/tensor_problem.hpp"
#include "runtime/cpu/ops/grid_sample.hpp"
#include "runtime/cpu/ops/pool_nd.hpp"
#include "runtime/cpu/ops/resample.hpp"
#include "runtime/cpu/scratch.hpp"
#include "tensors/windows.hpp"

namespace unisono::gpu {
namespace {

using tensors::Launches;

constexpr ElementType in_bf16{DType::f32, DType::bf16};

void run(const plan::Expected<Launches>& launches, const std::vector<LaidTensor*>& tensors) {
  ASSERT_TRUE(launches) << launches.refusal().text();
  run_on_gpu(*launches, tensors);
}

LaidTensor random_numbers(const ElementType& type, const Extents& shape, std::mt19937_64& random, double low = -4) {
  LaidTensor x = random_layout(type, shape, random);
  fill_between(x, random, low, 4);
  return x;
}

// Terms are positive, so that nothing cancels. What is stored in 16 bits is rounded there, too
double units_of_sums(const ElementType& type) { return size_of(type.memory) == 2 ? 2 : 64; }

double number_at(const LaidTensor& t, const Extents& index) {
  const std::int64_t number = number_of(index, t.at.shape);
  return is_float(t.at.type.memory) ? real_of(t, number)
                                    : static_cast<double>(static_cast<std::int32_t>(bits_of(t, number)));
}

// The batch of a broadcasts along the first axis, that of b lacks it
TEST(TensorSmall, ProductsOfBatchedMatrices) {
  std::mt19937_64 random(41);
  for (const ElementType& type : {stored(DType::f32), in_bf16, stored(DType::f64), stored(DType::i32)}) {
    LaidTensor a = random_numbers(type, {1, 3, 5, 70}, random, 0.25),
               b = random_numbers(type, {3, 70, 4}, random, 0.25);
    LaidTensor to = random_layout(type, {2, 3, 5, 4}, random), expected = dense_tensor(stored(type.value), to.at.shape);
    run(tensors::matmul(a.at, b.at, to.at), {&a, &b, &to});
    for (std::int64_t i = 0; i < element_count(to.at.shape); ++i) {
      const Extents at = index_of(i, to.at.shape);
      double sum = 0;
      for (std::int64_t k = 0; k < 70; ++k) sum += number_at(a, {0, at[1], at[2], k}) * number_at(b, {at[1], k, at[3]});
      set_element(expected, i, sum);
    }
    EXPECT_EQ(difference(to, expected, units_of_sums(type)), "") << to_string(type.memory);
  }
}

TEST(TensorSmall, PoolsOfAnyNumberOfAxes) {
  std::mt19937_64 random(42);
  const operators::PoolNd lines{.kernel = {3}, .stride = {2}, .dilation = {1}, .before = {1}, .after = {1}};
  const operators::PoolNd volumes{
      .kernel = {2, 3, 2}, .stride = {1, 2, 1}, .dilation = {1, 1, 2}, .before = {0, 1, 1}, .after = {1, 1, 0}};
  for (int time = 0; time < 10; ++time) {
    const bool volume = time % 2 == 1;
    operators::PoolNd op = volume ? volumes : lines;
    op.average = time / 2 < 2, op.count_pad = time / 2 == 1, op.indices = time / 2 >= 3,
    op.column_major = time / 2 == 4;
    const Extents shape = volume ? Extents{2, 3, 4, 7, 5} : Extents{2, 3, 9};
    const ElementType type = time % 4 < 2 ? stored(DType::f32) : in_bf16;
    const ElementType result = op.indices ? stored(DType::i64) : type;
    LaidTensor x = random_numbers(type, shape, random);
    LaidTensor to = random_layout(result, volume ? Extents{2, 3, 4, 4, 4} : Extents{2, 3, 5}, random);
    run(tensors::pool(op, x.at, to.at), {&x, &to});
    LaidTensor values = as_valued(x), expected = dense_tensor(stored(result.value), to.at.shape);
    const cpu::WindowNd window{op.kernel, op.stride, op.dilation, op.before, op.after, op.count_pad};
    if (op.indices)
      cpu::max_pool_indices(window, op.column_major, values.view(), expected.view(), cpu::serial);
    else
      (op.average ? cpu::average_pool_nd : cpu::max_pool_nd)(window, values.view(), expected.view(), cpu::serial);
    EXPECT_EQ(difference(to, expected, op.average ? 2 : 0), "") << time;
  }
}

// A linear axis, one with a tap each, one that stays
TEST(TensorSmall, ResamplesByWeights) {
  std::mt19937_64 random(43);
  const tensors::WeightedTaps linear{{0, 2, 4, 5}, {0, 1, 1, 2, 3}, {0.25, 0.75, 0.5, 0.5, 1}};
  const tensors::WeightedTaps nearest{{0, 1, 2, 3, 4}, {2, 2, 0, 1}, {1, 1, 1, 1}};
  for (const ElementType& type : {stored(DType::f32), in_bf16}) {
    LaidTensor x = random_numbers(type, {2, 4, 5, 3}, random), to = random_layout(type, {2, 3, 5, 4}, random);
    run(tensors::resample({{}, linear, {}, nearest}, 0, x.at, to.at), {&x, &to});
    LaidTensor values = as_valued(x), expected = dense_tensor(stored(DType::f32), to.at.shape);
    const auto taps = [](const tensors::WeightedTaps& t) {
      return cpu::AxisTaps{{t.first.begin(), t.first.end()}, {t.places.begin(), t.places.end()}, t.weights};
    };
    const std::vector<cpu::AxisTaps> both{taps(linear), taps(nearest)};
    const cpu::AlignedBuffer scratch(cpu::resample_bytes({1, 3}, both, values.view()));
    cpu::resample({1, 3}, both, values.view(), expected.view(), cpu::serial, scratch.data());
    EXPECT_EQ(difference(to, expected, 1), "");
  }
}

// Channels last: words of several, a tap whose weight is given to two; numbers that are none, and infinite ones
TEST(TensorSmall, WindowsOfChannelsAreInWords) {
  std::mt19937_64 random(46);
  const tensors::WeightedTaps linear{{0, 1, 3, 5, 7, 8}, {0, 0, 1, 1, 2, 2, 3, 3}, {1, .25, .75, .5, .5, .75, .25, 1}};
  const operators::PoolNd op{
      .kernel = {3, 2}, .stride = {2, 1}, .dilation = {1, 2}, .before = {1, 1}, .after = {1, 0}, .count_pad = true};
  for (const std::int64_t channels : {16, 20, 37})
    for (const ElementType& type : {stored(DType::f32), in_bf16, ElementType{DType::f32, DType::f16}}) {
      LaidTensor x = channels_last(type, {2, channels, 4, 5});
      fill_between(x, random, -4, 4);
      set_element(x, 3, std::nan("")), set_element(x, 60, HUGE_VAL);
      const LaidTensor values = as_valued(x);
      const auto compare = [&](const LaidTensor& to, const auto& compute, double units) {
        LaidTensor expected = dense_tensor(stored(DType::f32), to.at.shape), from = values;
        compute(from.view(), expected.view());
        EXPECT_EQ(difference(to, expected, units), "") << channels << " of " << to_string(type.memory);
      };
      const cpu::WindowNd window{op.kernel, op.stride, op.dilation, op.before, op.after, op.count_pad};
      for (const bool average : {false, true}) {
        LaidTensor to = channels_last(type, {2, channels, 2, 4});
        operators::PoolNd pooled = op;
        pooled.average = average;
        run(tensors::pool(pooled, x.at, to.at), {&x, &to});
        const auto pool = average ? cpu::average_pool_nd : cpu::max_pool_nd;
        compare(
            to, [&](const auto& a, const auto& b) { pool(window, a, b, cpu::serial); }, average ? 2 : 0);
      }
      LaidTensor large = channels_last(type, {2, channels, 5, 5});
      run(tensors::resample({{}, {}, linear, {}}, 0, x.at, large.at), {&x, &large});
      const std::vector<cpu::AxisTaps> taps{
          {{linear.first.begin(), linear.first.end()}, {linear.places.begin(), linear.places.end()}, linear.weights}};
      compare(
          large,
          [&](const auto& a, const auto& b) {
            const cpu::AlignedBuffer scratch(cpu::resample_bytes({2}, taps, a));
            cpu::resample({2}, taps, a, b, cpu::serial, scratch.data());
          },
          2);
    }
}

TEST(TensorSmall, WhatLiesOutsideIsFilled) {
  std::mt19937_64 random(44);
  const tensors::WeightedTaps taps{{0, 1, 2, 3}, {-1, 1, 0}, {1, 1, 1}};
  LaidTensor x = random_numbers(stored(DType::f32), {3, 2}, random),
             to = random_layout(stored(DType::f32), {3, 3}, random);
  run(tensors::resample({{}, taps}, 7.5f, x.at, to.at), {&x, &to});
  for (std::int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(real_of(to, 3 * row), 7.5);
    EXPECT_EQ(real_of(to, 3 * row + 1), real_of(x, 2 * row + 1));
    EXPECT_EQ(real_of(to, 3 * row + 2), real_of(x, 2 * row));
  }
}

TEST(TensorSmall, SamplesOfGrids) {
  std::mt19937_64 random(45);
  for (const GridMode mode : {GridMode::linear, GridMode::nearest, GridMode::cubic})
    for (const GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection})
      for (const bool align : {false, true}) {
        const bool volume = mode != GridMode::cubic && align;
        LaidTensor x =
            random_numbers(stored(DType::f32), volume ? Extents{2, 3, 4, 5, 6} : Extents{2, 3, 5, 6}, random);
        LaidTensor grid =
            random_layout(stored(DType::f32), volume ? Extents{2, 2, 3, 4, 3} : Extents{2, 7, 4, 2}, random);
        LaidTensor to = random_layout(in_bf16, volume ? Extents{2, 3, 2, 3, 4} : Extents{2, 3, 7, 4}, random);
        fill_between(grid, random, -1.8, 1.8);
        set_element(grid, 5, std::nan("")), set_element(grid, 9, 1), set_element(grid, 12, -1);
        const operators::GridSample op{mode, padding, align};
        run(tensors::grid_sample(op, x.at, grid.at, to.at), {&x, &grid, &to});
        LaidTensor expected = dense_tensor(stored(DType::f32), to.at.shape);
        cpu::grid_sample(op, x.view(), grid.view(), expected.view(), cpu::serial);
        EXPECT_EQ(difference(to, expected, 1), "") << static_cast<int>(mode) << static_cast<int>(padding) << align;
      }
}

// What output (n,k,d,h,w) of a convolution, or of its transpose, is the sum of
double convolved(const operators::Conv3d& op, const LaidTensor& x, const LaidTensor& w, const Extents& at) {
  const std::int64_t channels = x.at.shape[1] / op.groups,
                     outputs = (op.transposed ? w.at.shape[1] : w.at.shape[0] / op.groups);
  const std::int64_t group = at[1] / outputs;
  double sum = 0;
  Extents taps(w.at.shape.begin() + 2, w.at.shape.end());
  for (std::int64_t tap = 0; tap < element_count(taps); ++tap) {
    const Extents r = index_of(tap, taps);
    Extents from{at[0], 0, 0, 0, 0}, filter{0, 0, r[0], r[1], r[2]};
    bool inside = true;
    for (std::size_t i = 0; i < 3; ++i) {
      std::int64_t place = at[i + 2] * op.stride[i] - op.before[i] + r[i] * op.dilation[i];
      if (op.transposed) {
        place = at[i + 2] + op.before[i] - r[i] * op.dilation[i];
        inside = inside && place % op.stride[i] == 0;
        place /= op.stride[i];
      }
      inside = inside && place >= 0 && place < x.at.shape[i + 2];
      from[i + 2] = place;
    }
    for (std::int64_t c = 0; inside && c < channels; ++c) {
      from[1] = group * channels + c;
      filter[0] = op.transposed ? from[1] : at[1], filter[1] = op.transposed ? at[1] % outputs : c;
      sum += number_at(x, from) * number_at(w, filter);
    }
  }
  return sum;
}

TEST(TensorSmall, ConvolutionsOfVolumes) {
  std::mt19937_64 random(46);
  for (int time = 0; time < 8; ++time) {
    operators::Conv3d op{{1, 2, 1},        {1, 1, 2}, {1, 0, 1}, {1, 1, 1}, {0, 0, 0}, time % 2 == 1 ? 2 : 1,
                         time / 2 % 2 == 1};
    const std::int64_t groups = op.groups;
    const ElementType type = time < 4 ? stored(DType::f32) : in_bf16;
    LaidTensor x = random_numbers(type, {2, 4, 3, 6, 7}, random, 0.25), bias = dense_tensor(stored(DType::f32), {6});
    const Extents filter = op.transposed ? Extents{4, 6 / groups, 2, 3, 2} : Extents{6, 4 / groups, 2, 3, 2};
    LaidTensor w = random_numbers(stored(DType::f32), filter, random, 0.25);
    LaidTensor to = random_layout(type, op.transposed ? Extents{2, 6, 2, 12, 7} : Extents{2, 6, 4, 3, 7}, random);
    fill_between(bias, random, 0.25, 1);
    const bool biased = time % 3 != 0;
    run(tensors::convolve(op, x.at, w.at, biased ? &bias.at : nullptr, to.at), {&x, &w, &to, &bias});
    LaidTensor expected = dense_tensor(stored(DType::f32), to.at.shape);
    for (std::int64_t i = 0; i < element_count(to.at.shape); ++i) {
      const Extents at = index_of(i, to.at.shape);
      set_element(expected, i, convolved(op, x, w, at) + (biased ? real_of(bias, at[1]) : 0));
    }
    EXPECT_EQ(difference(to, expected, units_of_sums(type)), "") << time;
  }
}

}  // namespace
}  // namespace unisono::gpu
