#pragma once
/// What makes an output of several elements of its inputs by weights or windows: products of matrices, pools,
/// resamples, samples of a grid, convolutions of volumes. A thread has one output, or a word of neighbours along an
/// axis that stays as it is.

#include <vector>

#include "plan/expected.hpp"
#include "tensors/launch.hpp"
#include "tensors/strided.hpp"
#include "unisono/network/index_operators.hpp"
#include "unisono/network/tensor_operators.hpp"

namespace unisono::tensors {

/// a (…,M,K), b (…,K,N) → to (…,M,N); the other axes broadcast. Tensors are 0: a, 1: b, 2: to. Floats are added up in
/// their own type (f32 in runs), integers wrap.
plan::Expected<Launches> matmul(const StridedTensor& a, const StridedTensor& b, const StridedTensor& to);

/// x (N,C,…); to is i64 where places are wanted. Tensors are 0: x, 1: to.
plan::Expected<Launches> pool(const operators::PoolNd& op, const StridedTensor& x, const StridedTensor& to);

/// One axis: output i is the sum of weights[k]·x[places[k]] for k in [first[i], first[i + 1]). A place below 0 makes
/// all elements of that output `outside`.
struct WeightedTaps {
  std::vector<int> first, places;
  std::vector<double> weights;
};
/// `axes`: by axis of x; no `first`: the axis stays as it is. Sums in float64. Tensors are 0: x, 1: to.
plan::Expected<Launches> resample(const std::vector<WeightedTaps>& axes, float outside, const StridedTensor& x,
                                  const StridedTensor& to);

/// x (N,C,…), grid (N,…,axes). Tensors are 0: x, 1: grid, 2: to.
plan::Expected<Launches> grid_sample(const operators::GridSample& op, const StridedTensor& x, const StridedTensor& grid,
                                     const StridedTensor& to);

/// x (N,C,D,H,W), filter (K,C/groups,…) or, transposed, (C,K/groups,…), bias (K), dense, or null. Sums in float32, by
/// so many threads each: a power of two up to 32. Tensors are 0: x, 1: filter, 2: to, 3: bias.
plan::Expected<Launches> convolve(const operators::Conv3d& op, const StridedTensor& x, const StridedTensor& filter,
                                  const StridedTensor* bias, const StridedTensor& to, std::uint32_t lanes = 1);

}  // namespace unisono::tensors
