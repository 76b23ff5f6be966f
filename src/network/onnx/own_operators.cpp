/// Operators of the domain `unisono`: what programs need and ONNX has no operator for.

#include "network/onnx/windows.hpp"

namespace unisono::network::onnx_import {

namespace {

// x (N,C,…), g (N,K,…) → (K,C/group,…), with the attributes of the Conv of x whose result has the gradient g; also of
// one axis
void import_filter_gradient(const NodeReader& node) {
  NetworkValue x = node.value(0), g = node.value(1);
  if (x.shape().size() != g.shape().size() || (x.shape().size() != 3 && x.shape().size() != 4))
    node.fail("inputs have shapes {} and {}; expected (N,C,H,W) and (N,K,P,Q), or (N,C,L) and (N,K,P)",
              to_string(x.shape()), to_string(g.shape()));
  Window f = read_window(node, x.shape(), std::nullopt);
  const bool row = x.shape().size() == 3;
  if (row) f = with_row(f), x = lifted(node, x), g = lifted(node, g);
  operators::FilterGradient filter{{.stride = f.pair(f.stride),
                                    .pad = f.margins(),
                                    .dilation = f.pair(f.dilation),
                                    .groups = node.integer("group", 1)}};
  filter.filter = f.pair(f.kernel);
  const NetworkValue y = node.apply(filter, {x, g});
  node.result(row ? lowered(node, y) : y);
}

constexpr OwnOperator own_operators[] = {
    {{"FilterGradient", 1, import_filter_gradient}, 2, "dilations group kernel_shape pads strides"}};

}  // namespace

const OwnOperator* find_own(std::string_view op_type) {
  for (const OwnOperator& own : own_operators)
    if (own.row.op_type == op_type) return &own;
  return nullptr;
}

void check_own(NodeReader& node, const OwnOperator& own) {
  const auto& proto = node.proto();
  if (node.inputs() != own.inputs || node.outputs() != 1)
    node.fail("has {} inputs and {} outputs; expected {} inputs and 1 output", node.inputs(), node.outputs(),
              own.inputs);
  const std::string names = fmt::format(" {} ", own.attributes);
  for (const auto& a : proto.attribute())
    if (names.find(fmt::format(" {} ", a.name())) == std::string::npos)
      node.fail("has no attribute '{}'; it has {}", a.name(), own.attributes);
  node.expect({node.known_type(0)});
}

}  // namespace unisono::network::onnx_import
