#include "codegen/small_layers.hpp"

#include <fmt/format.h>

#include <optional>
#include <sstream>

#include "codegen/expression.hpp"
#include "codegen/names.hpp"
#include "codegen/pieces.hpp"
#include "codegen/scope.hpp"
#include "ir/op_table.hpp"
#include "unisono/text.hpp"

namespace unisono::codegen {

namespace {

constexpr std::size_t most_layer_operands = 16;  // kLayerOperands

struct LayerText {
  std::string text;  // a struct with value(p, output, sum)
  std::vector<std::string> operands;
  std::optional<plan::Refusal> refusal = {};
};

std::optional<plan::Refusal> refuse_layer_value(const Graph& g, ValueId id) {
  const Node& x = g[id];
  const bool leaf = x.op == Op::acc || x.op == Op::operand || x.op == Op::constant;
  if (!leaf && !ir::is_elementwise(x.op)) return plan::refusal_at(g, id, "small layers have elementwise epilogues");
  if (x.op == Op::operand && !(x.axes == axes::scalar || x.axes == axes::n))
    return plan::refusal_at(g, id, "small layers read operands [n]");
  if (x.dtype != DType::f32 && x.dtype != DType::boolean) return plan::refusal_at(g, id, "small layers compute in f32");
  return std::nullopt;
}

// `ahead`: operands of the other layer
LayerText layer_text(const Graph& g, const std::string& name, std::size_t ahead) {
  LayerText t;
  if (g.stores.size() != 1 || !g.effects.empty()) {
    t.refusal = plan::because("a small layer has one store");
    return t;
  }
  for (ValueId id = 0; id < g.nodes.size() && !t.refusal; ++id) t.refusal = refuse_layer_value(g, id);
  if (t.refusal) return t;
  const Names names(g);
  Scope scope(g, names, true, [&](ValueId id) -> std::string {
    const Node& x = g[id];
    if (x.op == Op::acc) return "sum";
    if (x.op != Op::operand) return "";
    t.operands.push_back(x.attr.name);
    return fmt::format("p.operands[{}][{}]", ahead + t.operands.size() - 1, x.axes == axes::n ? "output" : "0");
  });
  const ValueId stored = g.stores[0].value;
  scope.compute(std::vector{stored});
  scope.line(fmt::format("return {};", scope.text(stored, DType::f32)));
  std::istringstream lines(print(g));
  for (std::string line; std::getline(lines, line);) t.text += "//   " + line + "\n";
  t.text += fmt::format("struct {} {{\n{}}};\n", name,
                        function("float value(const SmallLayersParams& p, u32 output, float sum)", scope.lines()));
  return t;
}

}  // namespace

plan::Expected<SmallLayersKernel> small_layers_kernel(const Graph& first, const Graph& second, DType element) {
  LayerText one = layer_text(first, "First", 0);
  if (one.refusal) return *std::move(one.refusal);
  LayerText two = layer_text(second, "Second", one.operands.size());
  if (two.refusal) return *std::move(two.refusal);
  if (one.operands.size() + two.operands.size() > most_layer_operands)
    return plan::because(fmt::format("two small layers read more than {} operands", most_layer_operands));
  SmallLayersKernel k;
  k.entry = "unisono_kernel";
  k.source = fmt::format(
      "// Two small layers of an image's mean:\n#include <unisono/plain/small_layers.cuh>\n\nnamespace unisono {{\n\n"
      "{}\n{}\n}}  // namespace unisono\n\nextern \"C\" __global__ void __launch_bounds__({})\n"
      "unisono_kernel(const __grid_constant__ unisono::SmallLayersParams p) {{\n    using namespace unisono;\n    "
      "begin();\n    plain::small_layers<{}, First, Second>(p);\n}}\n",
      one.text, two.text, SmallLayersKernel::threads, element_name(element));
  k.first = std::move(one.operands), k.second = std::move(two.operands);
  return k;
}

}  // namespace unisono::codegen
