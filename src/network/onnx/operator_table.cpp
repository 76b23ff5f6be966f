#include <algorithm>
#include <array>

#include "network/onnx/function_bodies.hpp"
#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {
const auto& families() {
  static const std::array all{contraction_rows(),     elementwise_rows(), normalisation_rows(), image_rows(),
                              shape_rows(),           integer_rows(),     map_rows(),           activation_rows(),
                              reduction_rows(),       pool_rows(),        movement_rows(),      layer_norm_rows(),
                              index_rows(),           sequence_rows(),    einsum_rows(),        function_rows(),
                              local_norm_rows(),      crop_rows(),        attention_rows(),     affine_grid_rows(),
                              tensor_sequence_rows(), recurrence_rows()};
  return all;
}
}  // namespace

const OperatorRow* find_row(std::string_view op_type) {
  for (const auto& rows : families())
    for (const OperatorRow& row : rows)
      if (row.op_type == op_type) return &row;
  return nullptr;
}

std::vector<std::string_view> supported_operators() {
  std::vector<std::string_view> names;
  for (const auto& rows : families())
    for (const OperatorRow& row : rows) names.push_back(row.op_type);
  for (const std::string_view name : operators_with_bodies())
    if (find_row(name) == nullptr && refusal_of(name).empty()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace unisono::network::onnx_import
