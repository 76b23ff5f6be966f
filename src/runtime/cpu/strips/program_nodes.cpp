/// Nodes of the graph as instructions.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "coda/error.hpp"
#include "ir/op_table.hpp"
#include "runtime/cpu/strips/program_builder.hpp"
#include "support/float_convert.hpp"

namespace coda::cpu {

namespace {

// The instruction of an elementwise operation, where the two have the same meaning
Code code_of(Op op) {
  switch (op) {
#define CODA_SAME(NAME) \
  case Op::NAME: return Code::NAME;
    CODA_SAME(add)
    CODA_SAME(sub)
    CODA_SAME(mul)
    CODA_SAME(div)
    CODA_SAME(min)
    CODA_SAME(max)
    CODA_SAME(pow)
    CODA_SAME(less) CODA_SAME(less_equal) CODA_SAME(greater) CODA_SAME(greater_equal) CODA_SAME(equal)
        CODA_SAME(not_equal) CODA_SAME(logical_and) CODA_SAME(logical_or) CODA_SAME(fma) CODA_SAME(select)
            CODA_SAME(logical_not) CODA_SAME(neg) CODA_SAME(abs) CODA_SAME(sqrt) CODA_SAME(rsqrt) CODA_SAME(reciprocal)
                CODA_SAME(square) CODA_SAME(exp) CODA_SAME(log) CODA_SAME(log1p) CODA_SAME(tanh) CODA_SAME(erf)
                    CODA_SAME(sin) CODA_SAME(cos) CODA_SAME(sigmoid) CODA_SAME(relu) CODA_SAME(relu6)
                        CODA_SAME(leaky_relu) CODA_SAME(elu) CODA_SAME(silu) CODA_SAME(mish) CODA_SAME(gelu)
                            CODA_SAME(gelu_tanh) CODA_SAME(hardsigmoid) CODA_SAME(hardswish) CODA_SAME(softplus)
                                CODA_SAME(logsigmoid) CODA_SAME(clamp)
#undef CODA_SAME
                                    default
        : throw InternalError(fmt::format("the vector machine has no {}", to_string(op)));
  }
}

bool is_short(DType t) { return t == DType::bf16 || t == DType::f16 || t == DType::tf32; }

Code rounding(DType t) {
  return t == DType::bf16 ? Code::round_bf16 : t == DType::f16 ? Code::round_f16 : Code::round_tf32;
}

std::array<double, 2> immediates(const Node& x) {
  switch (x.op) {
    case Op::leaky_relu:
    case Op::elu: return {x.attr.alpha, 0};
    case Op::hardsigmoid: return {x.attr.alpha, x.attr.beta};
    case Op::clamp: return {x.attr.lower, x.attr.upper};
    default: return {0, 0};
  }
}

// Two's complement in 32 bits
double wrapped(std::uint32_t bits) { return static_cast<std::int32_t>(bits); }

double integer_result(Op op, double a, double b, double c) {
  const auto bits = [](double x) { return static_cast<std::uint32_t>(static_cast<std::int32_t>(x)); };
  switch (op) {
    case Op::add: return wrapped(bits(a) + bits(b));
    case Op::sub: return wrapped(bits(a) - bits(b));
    case Op::mul: return wrapped(bits(a) * bits(b));
    case Op::square: return wrapped(bits(a) * bits(a));
    case Op::fma: return wrapped(bits(a) * bits(b) + bits(c));
    case Op::neg: return wrapped(-bits(a));
    case Op::abs: return a < 0 ? wrapped(-bits(a)) : a;
    case Op::relu: return std::max(a, 0.0);
    case Op::min: return std::min(a, b);
    case Op::max: return std::max(a, b);
    default: throw InternalError(fmt::format("there is no integer {}", to_string(op)));
  }
}

}  // namespace

Instruction ProgramBuilder::lanes(Code code, const Register& result, std::vector<Register> sources, double immediate0,
                                  double immediate1) {
  const auto function =
      result.wide ? unit_.double_lane[static_cast<int>(code)] : unit_.float_lane[static_cast<int>(code)];
  if (!function)
    throw InternalError(fmt::format("vector instruction {} has no form for these lanes", static_cast<int>(code)));
  return [=, &p = p_, sources = std::move(sources)](const Frame& f) {
    LaneArgs a;
    a.result = address(result, f, p);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      a.source[i] = address(sources[i], f, p);
      a.step[i] = sources[i].scalar() && !result.scalar() ? 0 : 1;
    }
    a.lanes = static_cast<std::size_t>(result.per_row ? f.rows * result.width : result.run());
    a.immediate[0] = immediate0;
    a.immediate[1] = immediate1;
    function(a);
  };
}

void ProgramBuilder::compute(ValueId v) {
  const Node& x = node(v);
  const Key key{v, per_row(x.axes), width_of(x.axes), is_wide(x.dtype)};
  if (registers_.contains(key)) return;
  Register out;
  if (const auto k = kept_.find(v); k != kept_.end() && home_stage_.at(v) == stage_) {
    out = {
        .home = Home::kept, .offset = k->second, .width = width_of(x.axes), .per_row = true, .wide = is_wide(x.dtype)};
  } else {
    out = allocate(per_row(x.axes), width_of(x.axes), is_wide(x.dtype));
  }
  const auto op_class = ir::info(x.op).op_class;
  if (x.op == Op::cast)
    compute_cast(v, out);
  else if (x.op == Op::one_hot)
    compute_one_hot(v, out);
  else if (x.op == Op::call)
    compute_call(v, out);
  else if (op_class == ir::OpClass::reduction)
    compute_row_reduction(v, out);
  else if (x.dtype == DType::i32 && x.op != Op::select)
    compute_integer(v, out);
  else if (!fused_normalisation(v, out))
    compute_elementwise(v, out);
  registers_[key] = out;
}

// (a - b)·c + d and (a - b)·c in one instruction
bool ProgramBuilder::fused_normalisation(ValueId v, const Register& out) {
  const Node& x = node(v);
  if ((x.op != Op::fma && x.op != Op::mul) || x.dtype != DType::f32) return false;
  for (int i = 0; i < 2; ++i) {
    const ValueId difference = x.inputs[i];
    const auto stage = home_stage_.find(difference);
    if (stage == home_stage_.end() || stage->second != stage_ || !can_skip(difference)) continue;
    const Node& d = node(difference);
    std::vector<ValueId> ids{d.inputs[0], d.inputs[1], x.inputs[1 - i]};
    if (x.op == Op::fma) ids.push_back(x.inputs[2]);
    std::vector<Register> sources;
    for (const ValueId id : ids) {
      const Register natural = node(id).op == Op::constant ? constant(node(id).attr.value, false) : value(id);
      sources.push_back(natural.scalar() && !natural.wide ? natural : shaped(id, out.per_row, out.width, false));
    }
    emit(out.per_row, lanes(x.op == Op::fma ? Code::sub_fma : Code::sub_mul, out, std::move(sources)));
    return true;
  }
  return false;
}

void ProgramBuilder::compute_elementwise(ValueId v, const Register& out) {
  const Node& x = node(v);
  // the precision in which the node meets its inputs
  bool wide = is_wide(x.dtype);
  if (ir::info(x.op).op_class == ir::OpClass::comparison) {
    bool integral = true;
    for (const ValueId in : x.inputs) {
      const Node& i = node(in);
      const bool whole =
          i.op == Op::constant ? i.attr.value == support::round_to(i.attr.value, DType::i32) : !is_float(i.dtype);
      integral &= whole;
      wide |= i.op != Op::constant && i.dtype == DType::f64;
    }
    wide |= integral;
  }
  std::vector<Register> sources;
  for (const ValueId in : x.inputs) {
    const bool scalar =
        node(in).axes == axes::scalar || (node(in).axes.row == RowAxis::b && node(in).axes.col == ColAxis::none);
    sources.push_back(scalar ? shaped(in, false, 1, wide) : shaped(in, out.per_row, out.width, wide));
  }
  const auto [i0, i1] = immediates(x);
  if (wide == out.wide) {
    emit(out.per_row, lanes(code_of(x.op), out, std::move(sources), i0, i1));
  } else {
    const Register result = allocate(out.per_row, out.width, wide);
    emit(out.per_row, lanes(code_of(x.op), result, std::move(sources), i0, i1));
    const auto convert = out.wide ? unit_.widen : unit_.narrow;
    emit(out.per_row, [=, &p = p_](const Frame& f) {
      LaneArgs a;
      a.result = address(out, f, p);
      a.source[0] = address(result, f, p);
      a.step[0] = 1;
      a.lanes = static_cast<std::size_t>(out.per_row ? f.rows * out.width : out.run());
      convert(a);
    });
  }
  if (is_short(x.dtype)) emit(out.per_row, lanes(rounding(x.dtype), out, {out}));
}

void ProgramBuilder::compute_integer(ValueId v, const Register& out) {
  const Node& x = node(v);
  std::array<Register, 3> in;
  for (std::size_t i = 0; i < 3; ++i)
    in[i] = shaped(x.inputs[std::min(i, x.inputs.size() - 1)], out.per_row, out.width, true);
  emit(out.per_row, [=, op = x.op, &p = p_](const Frame& f) {
    auto* to = reinterpret_cast<double*>(address(out, f, p));
    const auto at = [&](std::size_t i) { return reinterpret_cast<const double*>(address(in[i], f, p)); };
    const double *a = at(0), *b = at(1), *c = at(2);
    const std::int64_t count = out.per_row ? f.rows * out.width : out.run();
    for (std::int64_t i = 0; i < count; ++i) to[i] = integer_result(op, a[i], b[i], c[i]);
  });
}

void ProgramBuilder::compute_cast(ValueId v, const Register& out) {
  const Node& x = node(v);
  const DType from = node(x.inputs[0]).dtype, to = x.dtype;
  const Register in =
      shaped(x.inputs[0], out.per_row, out.width, node(x.inputs[0]).op == Op::constant ? true : is_wide(from));
  if (!in.wide && !out.wide) {
    const Code code = is_short(to) ? rounding(to) : to == DType::boolean ? Code::round_bool : Code::copy;
    emit(out.per_row, lanes(code, out, {in}));
    return;
  }
  // one rounding from double lanes to any dtype
  emit(out.per_row, [=, &p = p_](const Frame& f) {
    const std::byte* source = address(in, f, p);
    std::byte* target = address(out, f, p);
    const std::int64_t count = out.per_row ? f.rows * out.width : out.run();
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = in.wide ? reinterpret_cast<const double*>(source)[i]
                                   : static_cast<double>(reinterpret_cast<const float*>(source)[i]);
      const double rounded = support::round_to(value, to);
      if (out.wide)
        reinterpret_cast<double*>(target)[i] = rounded;
      else
        reinterpret_cast<float*>(target)[i] = static_cast<float>(rounded);
    }
  });
}

void ProgramBuilder::compute_one_hot(ValueId v, const Register& out) {
  const Register label = shaped(node(v).inputs[0], out.per_row, 1, true);
  emit(out.per_row, [=, &p = p_](const Frame& f) {
    const auto* labels = reinterpret_cast<const double*>(address(label, f, p));
    auto* to = reinterpret_cast<float*>(address(out, f, p));
    const std::int64_t rows = out.per_row ? f.rows : 1;
    if (out.scalar()) {
      std::fill_n(to, scalar_lanes, labels[0] == 0 ? 1.0f : 0.0f);
      return;
    }
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < out.width; ++j)
        to[r * out.width + j] = labels[r] == static_cast<double>(j) ? 1.0f : 0.0f;
  });
}

// Calls the function once for each element of its own axes; a call without rows only once an image or once in all
void ProgramBuilder::compute_call(ValueId v, const Register& out) {
  const Node& x = node(v);
  const auto& function = g_.functions.at(x.attr.name);
  if (!function->cpu)
    throw Unsupported(fmt::format("user function {} has no CPU callable; set UserFunction::cpu", x.attr.name));
  const bool effect = !function->returns_value;
  std::vector<Register> in;
  for (const ValueId id : x.inputs) in.push_back(shaped(id, out.per_row, out.width, true));
  const bool once = x.axes.row == RowAxis::none;
  Instruction call = [=, &p = p_](const Frame& f) {
    if (effect && !out.per_row && once && f.image != 0) return;
    std::vector<double> arguments(in.size());
    std::vector<const double*> sources;
    for (const Register& r : in) sources.push_back(reinterpret_cast<const double*>(address(r, f, p)));
    auto* to = reinterpret_cast<float*>(address(out, f, p));
    const std::int64_t count = out.per_row ? f.rows * out.width : out.width;
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < sources.size(); ++k) arguments[k] = sources[k][i];
      const double y = function->cpu(arguments);
      if (!effect) to[i] = static_cast<float>(y);
    }
    if (!effect && out.scalar()) std::fill_n(to, scalar_lanes, to[0]);
  };
  emit(out.per_row, std::move(call));
}

}  // namespace coda::cpu
