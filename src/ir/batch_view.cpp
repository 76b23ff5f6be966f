#include "ir/batch_view.hpp"

namespace unisono::ir {

ConstTensorView in_batch(const ConstTensorView& view, const std::vector<std::int64_t>& shape) {
  ConstTensorView batch = view;
  if (!lacks_batch(view, shape)) return batch;
  batch.shape.insert(batch.shape.begin(), 1);
  if (view.strides.size() == 2) batch.strides.insert(batch.strides.begin(), view.shape[0] * view.strides[0]);
  return batch;
}

}  // namespace unisono::ir
