#pragma once
/// Batched matrix products.

#include <memory>

#include "runtime/cpu/ops/tensor.hpp"
#include "runtime/cpu/scratch.hpp"

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
  /// `scratch`: of thread_bytes() for each thread.
  void run(const void* a, const void* b, void* y, const Parallel& parallel, const OperatorScratch& scratch) const;
  /// A multiple of AlignedBuffer::alignment.
  std::size_t thread_bytes() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace unisono::cpu
