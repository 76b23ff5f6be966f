#pragma once
/// Convolutions of volumes, by oneDNN.

#include <memory>

#include "runtime/cpu/ops/tensor.hpp"
#include "runtime/cpu/ops/volumes.hpp"
#include "runtime/cpu/scratch.hpp"

namespace unisono::cpu {

/// x (N,C,D,H,W), w (K,C/groups,…) or, transposed, (C,K/groups,…), bias (K) or none → y (N,K,…); f32.
///
/// Made once for shapes and strides, run with any memory. A task is some output channels of one image, in a range
/// of its depth, as the extents say: so the bits do not depend on the number of threads.
class Conv3d {
 public:
  /// `data` of the tensors is not looked at. The filter is brought into oneDNN's order once if it is constant, which
  /// is to say that run() is given the same values each time.
  Conv3d(const Volumes& v, const Strided& x, const Strided& w, bool has_bias, const Strided& y, bool constant_filter);
  /// `bias`: dense, null if there is none. `scratch`: of scratch_bytes().
  void run(const void* x, const void* w, const void* bias, void* y, const Parallel& parallel,
           const OperatorScratch& scratch) const;
  std::size_t scratch_bytes(int threads) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace unisono::cpu
