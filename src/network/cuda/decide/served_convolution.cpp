#include "network/cuda/decide/served_convolution.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/op_table.hpp"
#include "network/cuda/decide/im2col_inputs.hpp"

namespace unisono::network::gpu {

namespace {

// Which a kernel made for groups may serve: one without matrix instructions, or tiles of several groups. Its plan says
// whether it is.
bool may_have_groups(const Conv2d& c, const MemoryStyle& style) {
  const bool depthwise = c.groups == c.c;
  return c.groups > 1 && (depthwise || (c.c % style.column_multiple == 0 && c.k % style.column_multiple == 0));
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

// Whether a launch may make the image with the channels that the kernel reads. Sums of few terms, such as those over an
// attention's heads, take a thread each less time than the copy.
bool may_pad_image(const Contraction& given, const Conv2d& c, Form form) {
  constexpr std::int64_t few_terms = 16;
  return form == Form::given && c.r * c.s * c.c > few_terms &&
         (std::holds_alternative<Conv2d>(given) || std::holds_alternative<Gemm>(given));
}

std::optional<Refusal> refuse_operands(const PlanningInput& in, const Operator& op, const Contraction& given,
                                       Form form) {
  if (form == Form::phases && !in.is_constant(op.inputs[1])) return because("its filter is not a constant");
  const auto* g = std::get_if<Gemm>(&given);
  if (g != nullptr && g->transpose_a) return because("its first operand is transposed");
  return std::nullopt;
}

}  // namespace

bool has_reductions(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Node& x) {
    const auto c = ir::info(x.op).op_class;
    return c == ir::OpClass::reduction || c == ir::OpClass::normalisation || c == ir::OpClass::softmax;
  });
}

// An input's change of layout leaves zeros there
bool is_padded_with_zeros(const PlanningInput& in, const NetworkPlan& plan, TensorId id) {
  if (column_count(in.sizes(id)) % in.fused.style.column_multiple == 0) return true;
  const auto& inputs = in.net().inputs;
  return std::find(inputs.begin(), inputs.end(), id) != inputs.end() && !plan.im2col_inputs.contains(id);
}

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
  if (auto refusal = refuse_operands(in, op, given, form)) return {.refusal = std::move(refusal)};
  const bool im2col = plan.im2col_inputs.contains(op.inputs[0]);
  Conv2d c = as_convolution(given, im2col);
  c.dtype_x = c.dtype_w = in.element;
  const bool has_zeros = im2col || is_padded_with_zeros(in, plan, op.inputs[0]);
  const bool pads = c.groups == 1 && !has_zeros && may_pad_image(given, c, form);
  if (c.groups == 1 && (has_zeros || pads)) c.c = style.pitch(c.c);
  if (c.groups == 1 && !has_reductions(graph)) c.k = style.pitch(c.k);
  if (may_have_groups(c, style) && std::holds_alternative<Conv2d>(given) && form != Form::phases) return {.conv = c};
  if (c.groups != 1) return {.refusal = refuse_groups(c.groups)};
  if (c.c % style.column_multiple != 0 || c.k % style.column_multiple != 0)
    return {.refusal =
                because(fmt::format("{} input and {} output channels; multiples of {} are packed for the tensor cores",
                                    c.c, c.k, style.column_multiple))};
  return {.conv = c, .pads_image = pads};
}

}  // namespace unisono::network::gpu
