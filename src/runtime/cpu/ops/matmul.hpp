#pragma once
/// Batched matrix products, and convolutions of volumes, both by oneDNN.

#include <memory>

#include "runtime/cpu/ops/tensor.hpp"

namespace unisono::cpu {

/// y (…,M,N) = a (…,M,K) · b (…,K,N), all of one rank of at least 2; an extent of 1 before the last two broadcasts. f32
/// (by oneDNN), f64, i32, i64, u32, u64 (integers wrap).
///
/// Made once for shapes and strides, run with any memory. A task is some rows of one matrix of the batch, as many as
/// the extents say: so the bits do not depend on the number of threads.
class BatchedMatmul {
 public:
  /// `data` of the three is not looked at.
  BatchedMatmul(const Strided& a, const Strided& b, const Strided& y);
  void run(const void* a, const void* b, void* y, const Parallel& parallel) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// Three entries each.
struct Volumes {
  Extents64 stride, dilation, before, after, output_pad;
  std::int64_t groups = 1;
  bool transposed = false;
};

/// x (N,C,D,H,W), w (K,C/groups,…) or, transposed, (C,K/groups,…), bias (K) or null → y (N,K,…); f32, dense row-major.
void conv3d(const Volumes& v, const Strided& x, const Strided& w, const Strided* bias, const Strided& y, int threads);

}  // namespace unisono::cpu
