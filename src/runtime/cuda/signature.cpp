/// What arguments are checked against, from a kernel and its plan; and what a family is told of those that were.

#include <algorithm>
#include <utility>

#include "ir/function_forms.hpp"
#include "runtime/common/names.hpp"
#include "runtime/cuda/arguments.hpp"

namespace unisono::cuda {

Signature signature(const Contraction& contraction, const Graph& source, const plan::Epilogue& epilogue,
                    const codegen::Kernel& kernel, bool reads_b) {
  Signature s;
  s.contraction = contraction;
  s.operands = runtime::operand_names(source);
  s.pointers = runtime::pointer_names(source);
  for (const auto& [name, function] : source.functions)
    for (const CapturedPointer& p : function->pointers) {
      std::size_t& alignment = s.pointer_alignments[p.name];
      alignment = std::max({alignment, std::size_t{1}, ir::alignment_of_pointer(p.type)});
    }
  for (const Node& x : epilogue.graph.nodes)
    if (x.op == Op::operand && x.attr.default_value) s.defaults[x.attr.name] = *x.attr.default_value;
  s.stores = epilogue.graph.stores;
  for (const Store& x : s.stores) s.store_axes.push_back(epilogue.graph[x.value].axes);
  s.resampled = epilogue.resampled;
  s.fields = kernel.fields;
  s.reads_b = reads_b;
  for (const plan::Output& o : epilogue.outputs)
    if (o.path == plan::Output::StorePath::before || o.path == plan::Output::StorePath::after)
      (s.main_store ? s.side_store : s.main_store) = o.store;
  return s;
}

Signature signature(const Contraction& contraction, const Graph& source, const plan::Epilogue& epilogue,
                    const families::Plan& plan, const codegen::Kernel& kernel, bool reads_b) {
  Signature s = signature(contraction, source, epilogue, kernel, reads_b);
  if (plan.moments.unit == 0) return s;
  s.moments = epilogue.moments.name;
  s.moments_shape = families::moments_shape(plan, extents(contraction).cols);
  return s;
}

families::Tensors tensors(BoundArguments& bound, const Address& filter, const Address& filter1) {
  return {.activation = bound.a,
          .filter = filter,
          .filter1 = filter1,
          .step_a = bound.step_a,
          .step_b = bound.step_b,
          .filter_pitch = bound.b_pitch,
          .activation_pitch = bound.a_pitch,
          .output = bound.output,
          .side = bound.side,
          .output_pitch = bound.output_pitch,
          .upsampled = bound.upsampled,
          .pooled = bound.pooled,
          .upsampled_pitch = bound.upsampled_pitch,
          .pooled_pitch = bound.pooled_pitch,
          .moments = bound.moments,
          .fields = std::move(bound.fields)};
}

}  // namespace unisono::cuda
