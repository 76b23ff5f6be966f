/// Graphs whose reductions run along rows: layer norms, softmax. One kernel computes the reductions and the stores.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/expression.hpp"
#include "codegen/graph_kernel_writer.hpp"
#include "codegen/pieces.hpp"
#include "codegen/reduction_text.hpp"
#include "codegen/scope.hpp"

namespace unisono::codegen {

// One pass over a row: what it loads, what it reduces, and its results. They are known to what comes after it
std::string KernelWriter::pass(const std::vector<ValueId>& values, std::size_t number) {
  octets_.clear();
  Scope scope(g_, names_, true, [this](ValueId id) { return given(id); });
  const ValueId input = g_[values[0]].inputs[0];
  scope.compute(std::vector{input});
  scope.line(fmt::format("return {};", scope.text(input, DType::f32)));
  std::string results;
  for (const ValueId id : values) {
    results += fmt::format("        reduced[{}] = {};\n", reduced_.size(), result_of(g_[id].op));
    reduced_.push_back(id);
  }
  const std::string members =
      fmt::format("    using State = {};\n    static constexpr int kInputs = {};\n", state_of(g_[values[0]].op),
                  octets_.size()) +
      octet_loads() +
      function(
          "float input(const GraphParams& p, u32 image, u32 row, u32 channel, const float* column, const float* "
          "reduced)",
          scope.lines()) +
      function("void finish(const State& state, float* reduced)", results);
  return fmt::format("struct Pass{} {{\n{}}};\n", number, members);
}

GraphKernel KernelWriter::rows(const std::vector<std::vector<ValueId>>& groups) {
  by_octets_ = in_registers_ = true;
  std::string body, passes;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    body += pass(groups[i], i);
    passes += fmt::format(", Values::Pass{}", i);
  }
  body += fmt::format("    static constexpr int kReduced = {};\n", reduced_.size()) + elements();
  GraphKernel k = finish(body, fmt::format("    plain::rows<Values{}>(p);\n", passes), 256);
  k.part = GraphKernel::Part::rows;
  return k;
}

}  // namespace unisono::codegen
