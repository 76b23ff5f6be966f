#pragma once
/// A tensor of the plan as the operators on tensors of any type take it.

#include "network/steps.hpp"
#include "network/storage.hpp"
#include "runtime/cpu/ops/tensor.hpp"

namespace unisono::network {

/// Without its memory, which a run gives it.
struct ViewOfTensor {
  TensorId id;
  cpu::Strided strided;

  cpu::Strided at(const Tensors& t) const {
    cpu::Strided s = strided;
    s.data = const_cast<void*>(t.data(id));
    return s;
  }
};

inline ViewOfTensor view_of_tensor(const Network& n, const StoragePlan& storage, TensorId id) {
  const Sizes& s = storage.shapes[id];
  return {id, {nullptr, n[id].dtype, s, logical_strides(s, storage.memory[id].row_stride)}};
}

}  // namespace unisono::network
