#include "network/onnx/folding.hpp"

#include <algorithm>

#include "network/constant_operator.hpp"
#include "network/dim.hpp"
#include "unisono/error.hpp"

namespace unisono::network::onnx_import {

namespace {
constexpr double most_elements = 0x1p20;  // a result has at most so many, unless it is a cast

double elements(const Shape& shape) {
  double n = 1;
  for (const Dim& d : shape) n *= static_cast<double>(d.value());
  return n;
}
}  // namespace

std::set<std::string> made_of_parameters(const ::unisono::onnx::GraphProto& graph) {
  static const std::set<std::string> recurrent{"GRU", "LSTM", "RNN"}, products{"Gemm", "MatMul"},
      moves{"Add", "Concat", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"};
  std::set<std::string> all;
  for (int i = graph.node_size(); i-- > 0;) {
    const ::unisono::onnx::NodeProto& node = graph.node(i);
    const std::string& op = node.op_type();
    if (recurrent.contains(op)) all.insert(node.output().begin(), node.output().end());  // what is made of its weights
    const bool is_move = moves.contains(op) && node.output_size() > 0 && all.contains(node.output(0));
    if (!recurrent.contains(op) && !products.contains(op) && !is_move) continue;
    const bool reads_all = !is_move || op == "Add" || op == "Concat";
    for (int k = 0; k < (reads_all ? node.input_size() : std::min(1, node.input_size())); ++k)
      all.insert(node.input(k));
  }
  all.erase("");
  return all;
}

bool leads_to_parameters(const OperatorKind& kind, const std::vector<NetworkValue>& inputs) {
  const auto* elementwise = std::get_if<operators::Elementwise>(&kind);
  const bool moves_or_adds =
      std::holds_alternative<operators::Transpose>(kind) || std::holds_alternative<operators::Slice>(kind) ||
      std::holds_alternative<operators::Concat>(kind) || (elementwise != nullptr && elementwise->op == Op::add);
  return moves_or_adds && std::ranges::all_of(inputs, [](NetworkValue v) { return v.dtype() == DType::f32; });
}

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
