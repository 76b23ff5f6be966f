/// What arguments are checked against, from a kernel and its plan.

#include "plan/head.hpp"
#include "runtime/common/names.hpp"
#include "runtime/cuda/arguments.hpp"

namespace unisono::cuda {

Signature signature(const Contraction& contraction, const Graph& source, const plan::Epilogue& epilogue,
                    const codegen::Kernel& kernel, bool reads_b) {
  Signature s;
  s.contraction = contraction;
  s.operands = runtime::operand_names(source);
  s.pointers = runtime::pointer_names(source);
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
  if (epilogue.head) {
    const plan::PlannedHead& head = *epilogue.head;
    s.head = HeadSignature{head.contraction, head.filter, s.stores[*s.main_store].dtype, head.epilogue.graph.stores[0],
                           kernel.head_fields};
    for (const Node& x : head.epilogue.graph.nodes)
      if (x.op == Op::operand && x.attr.default_value) s.defaults[x.attr.name] = *x.attr.default_value;
  }
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

}  // namespace unisono::cuda
