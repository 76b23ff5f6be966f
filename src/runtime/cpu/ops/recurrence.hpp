#pragma once
/// The steps of recurrent layers.

#include <memory>

#include "runtime/cpu/ops/tensor.hpp"
#include "runtime/cpu/scratch.hpp"
#include "unisono/network/recurrence.hpp"

namespace unisono::cpu {

/// Its tensors, see operators::Recurrence, without their memory.
struct RecurrenceTensors {
  Strided x, weights, extra, lengths, h, c, to;
};
/// Where they lie in a run; null: not given.
struct RecurrenceMemory {
  const void *x, *weights, *extra, *lengths, *h, *c;
  void* to;
};

/// All rows of all directions take a step at a time: one product with the state, then the gates. f32 and f64.
///
/// Made once for shapes and strides, run with any memory.
class Recurrence {
 public:
  Recurrence(const operators::Recurrence& how, RecurrenceTensors tensors, int threads);
  /// `scratch`: of scratch_bytes().
  void run(const RecurrenceMemory& memory, const Parallel& parallel, const OperatorScratch& scratch) const;
  std::size_t scratch_bytes() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace unisono::cpu
