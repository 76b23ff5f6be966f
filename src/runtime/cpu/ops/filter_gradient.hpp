#pragma once
/// Gradients of convolutions with respect to their filters, by oneDNN.

#include <memory>

#include "runtime/cpu/ops/tensor.hpp"
#include "runtime/cpu/scratch.hpp"
#include "unisono/conv_attributes.hpp"

namespace unisono::cpu {

/// x (N,C,H,W), g (N,K,P,Q) → y (K,C/groups,R,S); f32. See operators::FilterGradient.
///
/// Made once for shapes and strides, run with any memory. A task is some of the images, as their number says; the sums
/// of the tasks are added in their order. So the bits do not depend on the number of threads.
class FilterGradient {
 public:
  /// `data` of the tensors is not looked at.
  FilterGradient(const ConvAttributes& convolution, const Strided& x, const Strided& g, const Strided& y);
  /// `scratch`: of scratch_bytes().
  void run(const void* x, const void* g, void* y, const Parallel& parallel, const OperatorScratch& scratch) const;
  std::size_t scratch_bytes(int threads) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace unisono::cpu
