#include "codegen/bounds.hpp"

#include <cmath>

namespace unisono::codegen {

// Each is derived in docs/numerics.md; a sixteenth on top of the leading term takes up the float32 roundings beside it
FastBound fast_bound(const Node& node) {
  constexpr double slack = 1 + 0x1p-4;
  switch (node.op) {
    case Op::reciprocal: return {.relative = 0x1p-23 * slack, .limit = 0x1p126};
    case Op::div: return {.relative = 0x1p-22 * slack, .limit = 0x1p126};
    case Op::sqrt: return {.relative = 0x1p-23 * slack};
    case Op::rsqrt: return {.relative = 0x1p-22 * slack};
    case Op::exp: return {.relative = 0x1p-17};
    case Op::log: return {.relative = 0x1p-21, .absolute = 0x1p-22};
    case Op::tanh: return {.relative = 0x1p-11 * slack};
    case Op::erf: return {.relative = 0x1p-10 * slack};
    case Op::sin:
    case Op::cos: return {.absolute = 0x1p-20, .limit = 0x1p20};
    case Op::sigmoid: return {.absolute = 0x1p-12 * slack};
    case Op::silu:
    case Op::gelu_tanh: return {.input = 0x1p-12 * slack};
    case Op::gelu: return {.input = 1.25 * 0x1p-12 * slack};
    case Op::mish: return {.input = 0x1p-21};
    case Op::softplus:
    case Op::logsigmoid: return {.relative = 0x1p-23, .absolute = 0x1p-21};
    case Op::elu: return {.relative = 0x1p-23, .absolute = 0x1p-21 * std::abs(node.attr.alpha)};
    default: return {};
  }
}

}  // namespace unisono::codegen
