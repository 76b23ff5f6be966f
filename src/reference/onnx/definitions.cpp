#include "reference/onnx/definitions.hpp"

#include <algorithm>
#include <array>

namespace unisono::float64 {
namespace {

const auto& families() {
  static const std::array all{elementwise_definitions(), arithmetic_definitions(), shape_definitions(),
                              movement_definitions(),    index_definitions(),      reduction_definitions(),
                              contraction_definitions(), pool_definitions(),       normalisation_definitions(),
                              image_definitions(),       attention_definitions(),  recurrent_definitions(),
                              sequence_definitions(),    generator_definitions()};
  return all;
}

}  // namespace

const OnnxDefinition* find_definition(std::string_view op_type) {
  for (const auto& rows : families())
    for (const OnnxDefinition& row : rows)
      if (row.op_type == op_type) return &row;
  return nullptr;
}

std::vector<std::string_view> defined_operators() {
  std::vector<std::string_view> names;
  for (const auto& rows : families())
    for (const OnnxDefinition& row : rows) names.push_back(row.op_type);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace unisono::float64
