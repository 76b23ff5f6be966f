// What is wrong with the data of a run is told in the workspace, where the host finds it. A kernel goes on without what
// is at fault.
#pragma once
#include "unisono/params/tensor_params.cuh"
#include "unisono/ptx/types.cuh"

namespace unisono::tensor {

// The first of a run is kept.
UNISONO_DEVICE void tell(const FaultReport& report, TensorFault fault, i64 index, i64 extent) {
  TensorStatus* status = report.status;
  if (status == nullptr || atomicCAS(&status->launch, 0u, report.launch) != 0u) return;
  status->fault = fault, status->index = index, status->extent = extent;
}

// Whether an integer may be divided by y.
template <class T>
UNISONO_DEVICE bool divides(T y, const FaultReport& faults) {
  if (y != 0) return true;
  tell(faults, kDivisionByZero, 0, 0);
  return false;
}

// The place that an index names on an axis, where negative ones count from the end; below 0 if there is none.
UNISONO_DEVICE i64 named_place(i64 index, i64 extent, const FaultReport& faults) {
  if (index >= -extent && index < extent) return index < 0 ? index + extent : index;
  tell(faults, kIndexOutside, index, extent);
  return -1;
}

}  // namespace unisono::tensor
