#include "ir/infer.hpp"

#include <fmt/format.h>

#include <utility>

#include "ir/attributes.hpp"
#include "ir/op_table.hpp"
#include "unisono/error.hpp"

namespace unisono::ir {

namespace {

// dtype of arithmetic over all inputs; a constant takes the dtype of what it meets, if that is a float or holds it
// exactly, else f32
DType promote_all(std::span<const Node* const> inputs) {
  std::optional<DType> common;
  for (const Node* x : inputs)
    if (x->op != Op::constant) common = common ? promote(*common, x->dtype) : x->dtype;
  if (!common) return DType::f32;
  if (is_float(*common)) return *common;
  for (const Node* x : inputs)
    if (x->op == Op::constant && !is_exact_in(x->attr.value, *common)) return DType::f32;
  return *common;
}

DType as_float(DType t) { return is_float(t) ? t : DType::f32; }
DType at_least_f32(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

Axes join_all(std::span<const Node* const> inputs) {
  Axes a;
  for (const Node* x : inputs) a = join(a, x->axes);
  return a;
}

std::string no_bool(Op op, const Node& x) {
  return fmt::format("{} needs a bool, such as a comparison, and was given {}", to_string(op), to_string(x.dtype));
}

// Axes of a reduction's result: along an axis that it does not run over, those of its input
Axes infer_domain_axes(const Attributes& a, const Axes& input) {
  Axes r = reduced_axes(a.domain);
  if (!a.domain.rows) r.row = input.row;
  if (!a.domain.cols) {
    r.col = input.col;
    r.groups = input.groups;
  }
  return r;
}

// Sums, products and extrema of integers are integers; quotients and powers are floats; bools count as 0 and 1
DType common_dtype(TypeRule rule, std::span<const Node* const> in) {
  const DType t = promote_all(in);
  return t == DType::i32 && rule == TypeRule::arithmetic ? t : as_float(t);
}

DType reduction_dtype(TypeRule rule, DType t) {
  return rule == TypeRule::arithmetic && t == DType::i32 ? t : at_least_f32(t);
}

InferredOrReason infer_unary(Op op, std::span<const Node* const> in, std::optional<DType> requested) {
  const Node& x = *in[0];
  if (op == Op::cast) {
    if (!requested) return "cast needs a dtype, such as cast(x, bf16)";
    if (!is_supported(*requested))
      return fmt::format("cast to {}: the fp8 types are reserved and cannot be computed in yet", to_string(*requested));
    return Inferred{*requested, x.axes};
  }
  if (op == Op::one_hot) {
    if (x.axes.col != ColAxis::none)
      return fmt::format("one_hot needs a label without columns, such as label[m], and was given axes {}",
                         to_string(x.axes));
    return Inferred{DType::f32, {x.axes.row, ColAxis::n, 0}};
  }
  return Inferred{common_dtype(info(op).type, in), x.axes};
}

InferredOrReason infer_normalisation(Op op, std::span<const Node* const> in, const Attributes& a) {
  const int expected = 1 + (a.has_scale ? 1 : 0) + (a.has_shift ? 1 : 0);
  if (std::ssize(in) != expected) return wrong_arity(to_string(op), expected, in.size());
  DType t = as_float(in[0]->dtype);
  for (const Node* x : in) t = promote(t, x->dtype);
  return Inferred{at_least_f32(t), join(join_all(in), infer_domain_axes(a, in[0]->axes))};
}

}  // namespace

bool is_supported(DType t) { return t != DType::f8e4m3 && t != DType::f8e5m2; }

DType promote(DType x, DType y) {
  if (x == y) return x;
  if (x == DType::f64 || y == DType::f64) return DType::f64;
  if (x == DType::boolean) return y;
  if (y == DType::boolean) return x;
  if (x == DType::i32) return y;
  if (y == DType::i32) return x;
  return DType::f32;
}

std::string wrong_arity(std::string_view name, int takes, std::size_t given) {
  return fmt::format("{} takes {} input{} and was given {}", name, takes, takes == 1 ? "" : "s", given);
}

InferredOrReason try_infer(Op op, std::span<const Node* const> in, const Attributes& attr,
                           std::optional<DType> requested) {
  const OpInfo& row = info(op);
  if (row.arity >= 0 && std::ssize(in) != row.arity) return wrong_arity(row.name, row.arity, in.size());
  if (auto wrong = wrong_attributes(op, attr)) return *std::move(wrong);
  switch (row.op_class) {
    case OpClass::binary: return Inferred{common_dtype(row.type, in), join_all(in)};
    case OpClass::comparison: return Inferred{DType::boolean, join_all(in)};
    case OpClass::logical:
      for (const Node* x : in)
        if (x->dtype != DType::boolean) return no_bool(op, *x);
      return Inferred{DType::boolean, join_all(in)};
    case OpClass::ternary:
      if (row.type != TypeRule::picked) return Inferred{common_dtype(row.type, in), join_all(in)};
      if (in[0]->dtype != DType::boolean) return no_bool(op, *in[0]);
      return Inferred{promote_all(in.subspan(1)), join_all(in)};
    case OpClass::unary: return infer_unary(op, in, requested);
    case OpClass::reduction:
      return Inferred{reduction_dtype(row.type, in[0]->dtype), infer_domain_axes(attr, in[0]->axes)};
    case OpClass::normalisation: return infer_normalisation(op, in, attr);
    case OpClass::softmax:
      return Inferred{at_least_f32(in[0]->dtype), join(in[0]->axes, infer_domain_axes(attr, in[0]->axes))};
    case OpClass::call: return Inferred{DType::f32, join_all(in)};
    case OpClass::leaf: break;
  }
  throw InternalError(fmt::format("{} is a leaf: its type is not inferred", row.name));
}

Inferred infer(Op op, std::span<const Node* const> in, const Attributes& attr, std::optional<DType> requested) {
  const InferredOrReason found = try_infer(op, in, attr, requested);
  if (const auto* reason = std::get_if<std::string>(&found)) throw UserError(*reason);
  return std::get<Inferred>(found);
}

}  // namespace unisono::ir
