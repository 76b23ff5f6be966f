#include "network/cuda/decide/served_convolution.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/op_table.hpp"
#include "network/cuda/decide/im2col_inputs.hpp"

namespace unisono::network::gpu {

namespace {

bool has_reductions(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Node& x) {
    const auto c = ir::info(x.op).op_class;
    return c == ir::OpClass::reduction || c == ir::OpClass::normalisation || c == ir::OpClass::softmax;
  });
}

// Which a kernel made for groups may serve: one without matrix instructions, or tiles of several groups. Its plan says
// whether it is.
bool may_have_groups(const Conv2d& c, const MemoryStyle& style) {
  const bool depthwise = c.groups == c.c;
  return c.groups > 1 && (depthwise || (c.c % style.column_multiple == 0 && c.k % style.column_multiple == 0));
}

// Whether what lies between the last column and the pitch is zero: an input's change of layout leaves zeros there
bool is_padded_with_zeros(const PlanningInput& in, const NetworkPlan& plan, TensorId id) {
  if (column_count(in.sizes(id)) % in.fused.style.column_multiple == 0) return true;
  const auto& inputs = in.net().inputs;
  return std::find(inputs.begin(), inputs.end(), id) != inputs.end() && !plan.im2col_inputs.contains(id);
}

// The contraction as a convolution, with its own channels
Conv2d as_convolution(const Contraction& given, bool im2col) {
  if (const auto* c = std::get_if<Conv2d>(&given)) return im2col ? im2col_of(*c) : *c;
  if (const auto* t = std::get_if<ConvTranspose2d>(&given)) return {.c = t->c, .k = t->k, .groups = t->groups};
  if (const auto* v = std::get_if<Conv3d>(&given))
    return {.c = v->c, .k = v->k, .r = v->t * v->r, .s = v->s, .groups = v->groups};
  const auto& g = std::get<Gemm>(given);
  return {.n = 1, .h = 1, .w = g.m, .c = g.k, .k = g.n};
}

std::optional<Refusal> refuse_operands(const Contraction& given) {
  const auto* g = std::get_if<Gemm>(&given);
  if (g != nullptr && g->transpose_a) return because("its first operand is transposed");
  return std::nullopt;
}

// A filter that is no constant is read as it lies: (filters, taps, channels), which nobody has packed
std::optional<Refusal> refuse_computed_filter(const PlanningInput& in, const NetworkPlan& plan, const Operator& op,
                                              const Conv2d& served, Form form) {
  const TensorId filter = op.inputs[1];
  if (in.is_constant(filter)) return std::nullopt;
  const auto refuse = [](std::string_view why) {
    return because(fmt::format("its second operand is not a constant, {}", why));
  };
  const auto* product = std::get_if<operators::Gemm>(&op.kind);
  if ((product == nullptr && !std::holds_alternative<operators::Conv2d>(op.kind)) || form != Form::given)
    return refuse("and no filter of a plain convolution");
  if (product != nullptr && !product->transpose_b) return refuse("and its columns are not rows in memory");
  if (served.groups != 1) return refuse("and in groups");
  const Sizes& sizes = in.sizes(filter);
  if (sizes[0] != served.k) return refuse(fmt::format("and of {} output channels", sizes[0]));
  if (in.fused.own_type[filter] || in.element_tensor(filter).pitch != served.c ||
      !is_padded_with_zeros(in, plan, filter))
    return refuse(fmt::format("and does not lie as {} input channels in 16 bits", served.c));
  return std::nullopt;
}

}  // namespace

Conv2d one_group(Conv2d c) {
  c.c /= c.groups, c.groups = 1;
  return c;
}

Refusal refuse_groups(std::int64_t groups) {
  return because(fmt::format("its filters are in {} groups, which are not packed for the tensor cores", groups));
}

ServedConvolution as_served(const PlanningInput& in, const NetworkPlan& plan, const Operator& op, const Graph& graph,
                            Form form) {
  const MemoryStyle& style = in.fused.style;
  const Contraction given = in.contraction(op);
  if (auto refusal = refuse_operands(given)) return {std::nullopt, std::move(refusal)};
  const bool im2col = plan.im2col_inputs.contains(op.inputs[0]);
  Conv2d c = as_convolution(given, im2col);
  c.dtype_x = c.dtype_w = in.element;
  if (c.groups == 1 && (im2col || is_padded_with_zeros(in, plan, op.inputs[0]))) c.c = style.pitch(c.c);
  if (c.groups == 1 && !has_reductions(graph)) c.k = style.pitch(c.k);
  if (auto refusal = refuse_computed_filter(in, plan, op, c, form)) return {std::nullopt, std::move(refusal)};
  if (may_have_groups(c, style) && std::holds_alternative<Conv2d>(given) && form != Form::phases)
    return {c, std::nullopt};
  if (c.groups != 1) return {std::nullopt, refuse_groups(c.groups)};
  if (c.c % style.column_multiple != 0 || c.k % style.column_multiple != 0)
    return {
        std::nullopt,
        because(fmt::format("{} input and {} output channels, of which multiples of {} are packed for the tensor cores",
                            c.c, c.k, style.column_multiple))};
  return {c, std::nullopt};
}

}  // namespace unisono::network::gpu
