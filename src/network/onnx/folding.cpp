/// Operators on constants alone are computed while importing.

#include <algorithm>

#include "network/constant_operator.hpp"
#include "network/dim.hpp"
#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {
constexpr double most_elements = 0x1p20;  // a result has at most so many, unless it is a cast

double elements(const Shape& shape) {
  double n = 1;
  for (const Dim& d : shape) n *= static_cast<double>(d.value());
  return n;
}
}  // namespace

std::optional<NetworkTensor> folded(const Network& network, const OperatorKind& kind,
                                    const std::vector<NetworkValue>& inputs, const std::string& where,
                                    const std::function<void(std::uint64_t work, std::uint64_t bytes)>& take) {
  std::vector<const NetworkTensor*> types;
  for (const NetworkValue& v : inputs) {
    if (!network[v.id()].is_constant()) return std::nullopt;
    types.push_back(&network[v.id()]);
  }
  if (inputs.empty() || !is_elementary(kind)) return std::nullopt;
  const bool moves_nothing =
      std::holds_alternative<operators::Reshape>(kind) || std::holds_alternative<operators::Flatten>(kind);
  if (!moves_nothing) {
    const NetworkTensor result = result_type(kind, types, where);
    const auto* map = std::get_if<operators::Map>(&kind);
    double work = elements(result.shape);
    for (const NetworkTensor* t : types) work = std::max(work, elements(t->shape));
    if (work > most_elements && !(map != nullptr && map->op == MapOp::cast)) return std::nullopt;
    take(static_cast<std::uint64_t>(work),
         static_cast<std::uint64_t>(element_count(values(result.shape))) * size_of(result.dtype));
  }
  return computed(kind, types, where);
}

}  // namespace unisono::network::onnx_import
