#pragma once
/// PyTorch's memory, by its stable ABI: where tensors lie, new ones, the current stream, workspaces.

#include <cstdint>
#include <vector>

#include "prepared.hpp"
#include "stable_abi.hpp"

namespace unisono::python {

/// Bytes: where tensors of a GPU's kernels begin.
inline constexpr std::uintptr_t alignment = 16;

/// A device of PyTorch's.
struct Place {
  std::int32_t device = 0, index = 0;
};

/// The address of channel `first` of an image (N,C,H,W).
void* address_of_channel(const Tensor& image, std::int64_t first, DType dtype);

/// PyTorch's number of a dtype.
std::int32_t dtype_of(DType dtype);

Tensor empty(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides, std::int32_t dtype,
             const Place& place);

/// PyTorch's current stream.
Stream current_stream(int index);

/// Memory for as long as a call is kept, of PyTorch's allocator and in the order of the stream. A thread of its own
/// asks for it: while PyTorch warms up a CUDA graph, what this thread allocates is of the graph's pool and must not
/// outlive the run. Pools belong to threads.
Tensor workspace(std::size_t bytes, const Place& place, Stream stream);

/// A copy in another order of memory that begins at a multiple of 16 bytes, or the tensor itself where it does.
Tensor ordered(const Tensor& tensor, Order order);

}  // namespace unisono::python
