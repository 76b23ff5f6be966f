#include "network/cuda/tensor/launches.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

namespace unisono::network::gpu {

namespace {

// To which memory is aligned that begins so many bytes behind a multiple of it
constexpr std::size_t memory_alignment = 256;

}  // namespace

std::string TensorLaunches::how() const {
  std::vector<std::string> all;
  for (const tensors::Launch& l : launches.list) all.push_back(l.how);
  return fmt::format("{}", fmt::join(all, "; "));
}

WholeTensor whole_tensor(const PitchedTensor& tensor, const Sizes& sizes, DType value) {
  WholeTensor whole;
  whole.strided = {.type = {value, tensor.type},
                   .shape = sizes,
                   .strides = logical_strides(sizes, tensor.pitch),
                   .alignment = std::gcd(memory_alignment, tensor.at.offset)};
  whole.argument = {.at = tensor.at,
                    .memory = all_of(tensor, sizes),
                    .bytes = static_cast<double>(element_count(sizes)) * static_cast<double>(size_of(tensor.type))};
  return whole;
}

}  // namespace unisono::network::gpu
