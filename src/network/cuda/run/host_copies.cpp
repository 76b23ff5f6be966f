#include "network/cuda/run/host_copies.hpp"

#include <cstddef>
#include <optional>
#include <vector>

#include "network/strided_copy.hpp"
#include "runtime/cuda/stream.hpp"
#include "support/float_convert.hpp"

namespace unisono::network::gpu {

namespace {

// Both on the host
void copy_elements(const ConstTensorView& from, const TensorView& to) {
  if (from.dtype == to.dtype)
    return copy_strided(size_of(from.dtype), from.shape, from.data, from.strides, to.data, to.strides);
  walk_strided(from.shape, from.strides, to.strides, [&](std::int64_t source, std::int64_t target) {
    support::store(to.data, target, to.dtype, support::load(from.data, source, from.dtype));
  });
}

// An axis along which elements lie one behind the other: the longest
std::optional<std::size_t> axis_of_runs(const ConstTensorView& v) {
  std::optional<std::size_t> longest;
  for (std::size_t i = 0; i < v.shape.size(); ++i)
    if (v.strides[i] == 1 && (!longest || v.shape[i] > v.shape[*longest])) longest = i;
  return longest;
}

// Run by run, as what lies between the elements is another's
void copy_runs(int device_index, const ConstTensorView& from, const ConstTensorView& to, Stream stream) {
  const auto axis = axis_of_runs(to);
  const std::int64_t length = axis ? to.shape[*axis] : 1;
  Sizes others = to.shape;
  if (axis) others[*axis] = 1;
  const auto from_size = static_cast<std::int64_t>(size_of(from.dtype)),
             to_size = static_cast<std::int64_t>(size_of(to.dtype));
  std::vector<std::byte> run(static_cast<std::size_t>(length * to_size));
  walk_strided(others, from.strides, to.strides, [&](std::int64_t source, std::int64_t target) {
    const auto* const first = static_cast<const std::byte*>(from.data) + source * from_size;
    copy_elements({first, from.dtype, {length}, {axis ? from.strides[*axis] : 1}},
                  {run.data(), to.dtype, {length}, {1}});
    auto* const there = static_cast<std::byte*>(const_cast<void*>(to.data)) + target * to_size;
    cuda::copy(device_index, there, run.data(), run.size(), stream);
  });
}

}  // namespace

ViewExtent extent_of(const ConstTensorView& v) {
  std::int64_t lowest = 0, highest = 0;
  for (std::size_t i = 0; i < v.shape.size(); ++i)
    (v.strides[i] < 0 ? lowest : highest) += (v.shape[i] - 1) * v.strides[i];
  return {lowest, highest - lowest + 1};
}

bool is_dense(const ConstTensorView& v) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < v.shape.size(); ++i) {
    if (v.strides[i] < 0) return false;
    last += (v.shape[i] - 1) * v.strides[i];
  }
  return last + 1 == element_count(v.shape);
}

void copy_to_host(int device_index, const ConstTensorView& from, const TensorView& to, Stream stream) {
  if (element_count(from.shape) == 0) return;
  const ViewExtent extent = extent_of(from);
  const auto size = static_cast<std::int64_t>(size_of(from.dtype)), begin = extent.lowest * size;
  std::vector<std::byte> all(static_cast<std::size_t>(extent.count * size));
  cuda::copy(device_index, all.data(), static_cast<const std::byte*>(from.data) + begin, all.size(), stream);
  cuda::wait(device_index, stream);
  copy_elements({all.data() - begin, from.dtype, from.shape, from.strides}, to);
}

void copy_from_host(int device_index, const ConstTensorView& from, const ConstTensorView& to, Stream stream) {
  if (element_count(from.shape) == 0) return;
  if (!is_dense(to)) return copy_runs(device_index, from, to, stream);
  std::vector<std::byte> all(static_cast<std::size_t>(element_count(to.shape)) * size_of(to.dtype));
  copy_elements(from, {all.data(), to.dtype, to.shape, to.strides});
  cuda::copy(device_index, const_cast<void*>(to.data), all.data(), all.size(), stream);
}

}  // namespace unisono::network::gpu
