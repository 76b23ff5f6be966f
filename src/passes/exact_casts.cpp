#include "passes/exact_casts.hpp"

namespace unisono::passes {

bool is_widening(DType from, DType to) {
  if (from == to || from == DType::boolean) return true;
  switch (to) {
    case DType::f64: return true;
    case DType::f32: return from == DType::tf32 || from == DType::f16 || from == DType::bf16;
    case DType::tf32: return from == DType::f16 || from == DType::bf16;  // 8 bits of exponent, 10 of mantissa
    default: return false;
  }
}

bool drop_exact_casts(Editor& g) {
  bool changed = false;
  for (ValueId id = 0; id < g.size(); ++id) {
    if (g.dead(id) || g[id].op != Op::cast) continue;
    const ValueId x = g[id].inputs[0];
    if (g[x].dtype == g[id].dtype && g[x].op != Op::constant) {
      g.replace(id, x);
      changed = true;
    } else if (g[x].op == Op::cast) {
      const ValueId inner = g[x].inputs[0];
      if (g[inner].op == Op::constant || !is_widening(g[inner].dtype, g[x].dtype)) continue;
      g.set_inputs(id, {inner});
      changed = true;
    }
  }
  return changed;
}

}  // namespace unisono::passes
