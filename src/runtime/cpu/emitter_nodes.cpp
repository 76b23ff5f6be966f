/// The instructions of each kind of node, see emitter.hpp.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/op_table.hpp"
#include "runtime/cpu/emitter.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

// The instruction of each elementwise op; the enumerations name them alike
Code code_of(Op op) {
  switch (op) {
#define UNISONO_ELEMENTWISE(NAME, ...) \
  case Op::NAME: {                     \
    return Code::NAME;                 \
  }
#define UNISONO_OTHER(NAME) \
  case Op::NAME: {          \
    break;                  \
  }
#include "ir/operations.inc"
  }
  throw InternalError(fmt::format("the CPU has no instruction for {}", to_string(op)));
}

std::array<double, 2> immediates(const Node& x) {
  std::array<double, 2> values{};
  const auto parameters = ir::info(x.op).parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) values[i] = x.attr.*parameters[i].field;
  return values;
}

RowResult row_result(Op op) {
  switch (op) {
    case Op::sum: return RowResult::sum;
    case Op::mean: return RowResult::mean;
    case Op::sum_squares: return RowResult::sum_squares;
    case Op::variance: return RowResult::variance;
    case Op::reduce_max: return RowResult::largest;
    case Op::reduce_min: return RowResult::smallest;
    default: throw InternalError(fmt::format("{} is not a reduction", to_string(op)));
  }
}

}  // namespace

// As the reference has it: a comparison meets its inputs in f64 if one is f64 or all are integers, else in f32
bool Emitter::arithmetic_is_wide(const Node& x) const {
  const bool by_inputs = ir::info(x.op).op_class == ir::OpClass::comparison || x.op == Op::one_hot;
  if (!by_inputs) return is_wide(x.dtype);
  bool integral = true;
  for (const ValueId in : x.inputs) {
    const Node& y = g_[in];
    if (y.op != Op::constant && y.dtype == DType::f64) return true;
    integral = integral && (y.op == Op::constant ? y.attr.value == std::trunc(y.attr.value) : y.dtype == DType::i32);
  }
  return integral;
}

bool Emitter::arithmetic_is_integer(const Node& x) const { return x.dtype == DType::i32 && x.op != Op::select; }

void Emitter::round_result(int reg, DType t) {
  Code code{};
  switch (t) {
    case DType::bf16: code = Code::round_bf16; break;
    case DType::f16: code = Code::round_f16; break;
    case DType::tf32: code = Code::round_tf32; break;
    default: return;
  }
  Instruction i = instruction(Kind::lanes, reg, {reg});
  i.code = code;
  emit(i);
}

void Emitter::elementwise(ValueId v) {
  const Node& x = g_[v];
  const bool wide = arithmetic_is_wide(x);
  const LaneShape shape = shape_of(x.axes);
  Instruction i = instruction(Kind::lanes, 0, {});
  for (std::size_t k = 0; k < x.inputs.size(); ++k) i.source.push_back(get(x.inputs[k], shape, wide));
  i.immediate = immediates(x);
  if (arithmetic_is_integer(x)) {
    i.kind = Kind::integer;
    i.op = x.op;
  } else {
    i.code = code_of(x.op);
  }
  const bool narrow_truth = wide && x.dtype == DType::boolean;  // a comparison of doubles
  i.result = narrow_truth ? add_register({.shape = shape, .wide = true}) : result_register(v);
  const int result = i.result;
  emit(std::move(i));
  if (narrow_truth) {
    const int narrow = result_register(v);
    emit(instruction(Kind::narrow, narrow, {result}));
    return;
  }
  round_result(result, x.dtype);
}

void Emitter::cast(ValueId v) {
  const Node& x = g_[v];
  const Node& from = g_[x.inputs[0]];
  const bool from_wide = from.op == Op::constant ? is_wide(x.dtype) : is_wide(from.dtype);
  const LaneShape shape = shape_of(x.axes);
  const int source = get(x.inputs[0], shape, from_wide || x.dtype == DType::i32);
  if (x.dtype == DType::i32 || (from_wide && x.dtype != DType::f64 && x.dtype != DType::f32)) {
    // rounded once, in double lanes
    const int result = is_wide(x.dtype) ? result_register(v) : add_register({.shape = shape, .wide = true});
    Instruction i = instruction(Kind::round, result, {source});
    i.dtype = x.dtype;
    emit(i);
    if (!is_wide(x.dtype)) {
      const int narrow = result_register(v);
      emit(instruction(Kind::narrow, narrow, {result}));
    }
    return;
  }
  const int result = result_register(v);
  if (x.dtype == DType::f64 && !from_wide) return emit(instruction(Kind::widen, result, {source}));
  if (x.dtype != DType::f64 && from_wide) return emit(instruction(Kind::narrow, result, {source}));
  Instruction i = instruction(Kind::lanes, result, {source});
  switch (x.dtype) {
    case DType::bf16: i.code = Code::round_bf16; break;
    case DType::f16: i.code = Code::round_f16; break;
    case DType::tf32: i.code = Code::round_tf32; break;
    case DType::boolean: i.code = Code::round_bool; break;
    default: i.code = Code::copy;
  }
  emit(i);
}

// label == index(n)
void Emitter::one_hot(ValueId v) {
  const Node& x = g_[v];
  const bool wide = arithmetic_is_wide(x);
  const LaneShape shape = shape_of(x.axes);
  const int label = get(x.inputs[0], shape, wide);
  const int column = add_register({.shape = shape, .wide = true});
  Instruction i = instruction(Kind::coordinate, column, {});
  i.coordinate = Coordinate::n;
  emit(i);
  Instruction equal = instruction(Kind::lanes, 0, {label, wide ? column : narrowed(column)});
  equal.code = Code::equal;
  equal.result = wide ? add_register({.shape = shape, .wide = true}) : result_register(v);
  emit(equal);
  if (wide) {
    const int result = result_register(v);
    emit(instruction(Kind::narrow, result, {equal.result}));
  }
}

// Over the columns of each row
void Emitter::row_reduction(ValueId v) {
  const Node& x = g_[v];
  const LaneShape whole{LaneShape::block, plan_.extents.cols};
  const bool wide = is_wide(x.dtype) || is_wide(g_[x.inputs[0]].dtype);
  const int source = get(x.inputs[0], whole, wide);
  const bool narrow_result = wide && !is_wide(x.dtype);
  const int result = narrow_result ? add_register({.shape = shape_of(x.axes), .wide = true}) : result_register(v);
  Instruction i = instruction(Kind::row_reduce, result, {source});
  i.row_result = row_result(x.op);
  i.dtype = x.dtype;
  emit(i);
  if (!narrow_result) return;
  const int narrow = result_register(v);
  emit(instruction(Kind::narrow, narrow, {result}));
}

void Emitter::uniform_reduction(ValueId v) {
  const Node& x = g_[v];
  const ReduceDomain& d = x.attr.domain;
  LaneShape shape = g_[x.inputs[0]].op == Op::constant ? LaneShape{} : shape_of(g_[x.inputs[0]].axes);
  if (d.cols) shape.cols = plan_.extents.cols;
  int source = get(x.inputs[0], shape_of(g_[x.inputs[0]].axes), true);
  if (d.cols && shape.cols > 1) {  // a scalar too is repeated over the columns: spread() leaves scalars alone
    const int repeated = add_register({.shape = shape, .wide = true});
    emit(instruction(Kind::expand, repeated, {source}));
    source = repeated;
  }
  const bool narrow_result = !is_wide(x.dtype);
  const int result = narrow_result ? add_register({.shape = shape_of(x.axes), .wide = true}) : result_register(v);
  Instruction i = instruction(Kind::reduce, result, {source});
  i.op = x.op;
  i.dtype = x.dtype;
  i.index = static_cast<int>(v);
  emit(i);
  if (!narrow_result) return;
  const int narrow = result_register(v);
  emit(instruction(Kind::narrow, narrow, {result}));
}

void Emitter::call(ValueId v, bool effect) {
  const Node& x = g_[v];
  const auto f = g_.functions.at(x.attr.name);
  if (!f->cpu)
    throw Unsupported(
        fmt::format("function {} has CUDA text only. On the CPU:\n  call: needs UserFunction::cpu", x.attr.name));
  Instruction i = instruction(Kind::call, -1, {});
  const LaneShape shape = shape_of(x.axes);
  for (std::size_t k = 0; k < x.inputs.size(); ++k)
    i.source.push_back(get(x.inputs[k], shape, f->parameter(k) != ParameterType::float32));  // integers in double lanes
  i.index = static_cast<int>(plan_.functions.size());
  plan_.functions.push_back(f);
  if (effect) {  // a result that nothing reads says how many elements there are
    i.result = add_register({.shape = shape});
    return emit(i);
  }
  i.result = result_register(v);
  emit(i);
}

void Emitter::effect(ValueId v) { call(v, true); }

// (a - b)·c + d and (a - b)·c in one instruction, where nothing else reads what is between
bool Emitter::fused_normalisation(ValueId v) {
  const Node& x = g_[v];
  const auto absorbed = [&](ValueId in) {
    return std::find(absorbed_.begin(), absorbed_.end(), in) != absorbed_.end();
  };
  Instruction i = instruction(Kind::lanes, 0, {});
  std::vector<ValueId> inputs;
  const auto take_product = [&](const std::vector<ValueId>& factors) {
    const std::size_t s = absorbed(factors[0]) ? 0 : 1;
    inputs = {g_[factors[s]].inputs[0], g_[factors[s]].inputs[1], factors[1 - s]};
  };
  const auto starts = [&](ValueId in) { return absorbed(in) && g_[in].op == Op::sub; };
  if (x.op == Op::mul && (starts(x.inputs[0]) || starts(x.inputs[1]))) {
    take_product(x.inputs);
    i.code = Code::sub_mul;
  } else if (x.op == Op::fma && (starts(x.inputs[0]) || starts(x.inputs[1]))) {
    take_product({x.inputs[0], x.inputs[1]});
    inputs.push_back(x.inputs[2]);
    i.code = Code::sub_fma;
  } else if (x.op == Op::add && (absorbed(x.inputs[0]) || absorbed(x.inputs[1]))) {
    const std::size_t s = absorbed(x.inputs[0]) ? 0 : 1;
    take_product(g_[x.inputs[s]].inputs);
    inputs.push_back(x.inputs[1 - s]);
    i.code = Code::sub_fma;
  } else {
    return false;
  }
  const LaneShape shape = shape_of(x.axes);
  for (const ValueId in : inputs) i.source.push_back(get(in, shape, false));
  i.result = result_register(v);
  emit(i);
  return true;
}

void Emitter::value(ValueId v) {
  const Node& x = g_[v];
  if (std::find(absorbed_.begin(), absorbed_.end(), v) != absorbed_.end()) return;
  if (fused_normalisation(v)) return;
  switch (ir::info(x.op).op_class) {
    case ir::OpClass::reduction: return tiles_ ? row_reduction(v) : uniform_reduction(v);
    case ir::OpClass::call: return call(v, false);
    default: break;
  }
  if (x.op == Op::cast) return cast(v);
  if (x.op == Op::one_hot) return one_hot(v);
  elementwise(v);
}

}  // namespace unisono::cpu
