#include "network/cuda/tensor/launches.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "network/cuda/tensor/operands.hpp"

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

WholeTensor TensorOperands::whole(const PlanningInput& in, TensorId id) {
  return whole_tensor(in.tensor(id), in.sizes(id), in.net()[id].dtype);
}

WholeTensor TensorOperands::exact(const PlanningInput& in, TensorId id) {
  return whole_tensor(in.typed_tensor(id), in.sizes(id), in.net()[id].dtype);
}

plan::Expected<TensorLaunches> TensorOperands::over(plan::Expected<tensors::Launches> launches,
                                                    const std::vector<WholeTensor>& all) {
  if (!launches) return std::move(launches).refusal();
  TensorLaunches made{.launches = *std::move(launches), .arguments = {}};
  for (const WholeTensor& t : all) made.arguments.push_back(t.argument);
  return made;
}

plan::Expected<TensorLaunches> tensor_launches(const PlanningInput& in, const Operator& op) {
  const TensorOperands operands(in, op);
  for (const auto launches : {launches_of_movement, launches_of_arithmetic, launches_of_indices})
    if (auto made = launches(operands)) return *std::move(made);
  return because("no kernel of a GPU serves it");
}

}  // namespace unisono::network::gpu
