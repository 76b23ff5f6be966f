#pragma once
/// Copies between tensors of the caller in the GPU's memory and tensors on the host, of any strides and types.

#include <cstdint>

#include "unisono/executable.hpp"
#include "unisono/tensor.hpp"

namespace unisono::network::gpu {

/// The memory of a view, from its lowest address on: elements, counted from the first.
struct ViewExtent {
  std::int64_t lowest = 0, count = 0;
};
/// Strides may have any sign; the view has elements.
ViewExtent extent_of(const ConstTensorView& v);

/// Whether the elements fill their memory, in whichever order: then they can be copied as they are.
bool is_dense(const ConstTensorView& v);

/// The elements of a tensor of the GPU, to one of the same shape on the host; floats are converted. Waits. Views have
/// strides.
void copy_to_host(int device_index, const ConstTensorView& from, const TensorView& to, Stream stream);

/// The other way, in the order of the stream; `from` has been read when this returns. Nothing is written between the
/// elements.
void copy_from_host(int device_index, const ConstTensorView& from, const ConstTensorView& to, Stream stream);

}  // namespace unisono::network::gpu
