#include "families/cutlass_evt/functors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "codegen/expression.hpp"
#include "ir/op_table.hpp"

namespace unisono::families::cutlass_evt {
namespace {

// Those that propagate NaN as ours do, and whose functions are within some units in the last place of float32.
// thread::Tanh is none of them: on these architectures it is tanh.approx.
const char* own_of_cutlass(Op op) {
  switch (op) {
    case Op::add: return "cutlass::plus";
    case Op::sub: return "cutlass::minus";
    case Op::mul: return "cutlass::multiplies";
    case Op::div: return "cutlass::divides";
    case Op::max: return "cutlass::maximum_with_nan_propagation";
    case Op::min: return "cutlass::minimum_with_nan_propagation";
    case Op::fma: return "cutlass::homogeneous_multiply_add";
    case Op::relu: return "thread::ReLu";
    case Op::sigmoid: return "thread::Sigmoid";
    case Op::silu: return "thread::SiLu";
    case Op::gelu: return "thread::GELU";
    default: return nullptr;
  }
}

bool is_rounded_by_visitor(DType t) { return t == DType::f32 || t == DType::bf16 || t == DType::f16; }

bool reads_floats(const Graph& g, const Node& x) {
  return std::ranges::all_of(x.inputs,
                             [&](ValueId in) { return is_float(g[in].dtype) && is_rounded_by_visitor(g[in].dtype); });
}

std::string class_name(Op op, ValueId id) {
  std::string name(to_string(op));
  name[0] = static_cast<char>(std::toupper(name[0]));
  return fmt::format("{}{}", name, id);
}

// Truth values are 0 and 1 in float fragments
std::string as_value(const std::string& element, DType t) {
  return t == DType::boolean ? fmt::format("({} != 0.f)", element) : element;
}

Functor written(const std::string& name, const std::string& expression, std::vector<ValueId> inputs) {
  std::vector<std::string> parameters;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    parameters.push_back(fmt::format("const cutlass::Array<float, N>& x{}", i));
  Functor f{.name = name, .inputs = std::move(inputs)};
  f.definition = fmt::format(
      "template <class T>\n"
      "struct {0} {{}};\n"
      "template <int N>\n"
      "struct {0}<cutlass::Array<float, N>> {{\n"
      "    CUTLASS_DEVICE cutlass::Array<float, N> operator()({1}) const {{\n"
      "        cutlass::Array<float, N> y;\n"
      "        CUTLASS_PRAGMA_UNROLL\n"
      "        for (int i = 0; i < N; ++i) y[i] = {2};\n"
      "        return y;\n"
      "    }}\n"
      "}};\n",
      name, fmt::join(parameters, ", "), expression);
  return f;
}

Functor of_our_kernels(const Graph& g, ValueId id) {
  const Node& x = g[id];
  std::vector<ValueId> read;
  std::vector<std::string> texts;
  for (const ValueId in : x.inputs) {
    if (g[in].op == Op::constant) {
      texts.push_back(codegen::literal(g[in].attr.value, g[in].dtype));
      continue;
    }
    auto at = std::ranges::find(read, in);
    if (at == read.end()) at = read.insert(at, in);
    texts.push_back(as_value(fmt::format("x{}[i]", at - read.begin()), g[in].dtype));
  }
  std::string text = codegen::expression(g, id, texts, true);
  if (x.dtype == DType::boolean) text = fmt::format("{} ? 1.f : 0.f", text);
  return written(class_name(x.op, id), text, std::move(read));
}

bool is_plain_clamp(const Node& x) {
  return x.op == Op::clamp && std::isfinite(x.attr.lower) && std::isfinite(x.attr.upper);
}

}  // namespace

Functor functor_of(const Graph& g, ValueId id, bool takes_arguments) {
  const Node& x = g[id];
  if (!is_rounded_by_visitor(x.dtype) || !reads_floats(g, x)) return of_our_kernels(g, id);
  if (x.op == Op::cast) return {.name = "thread::Identity", .inputs = x.inputs};
  if (takes_arguments && is_plain_clamp(x))
    return {.name = "thread::Clamp",
            .arguments = fmt::format("{}, {}", codegen::literal(x.attr.lower, DType::f32),
                                     codegen::literal(x.attr.upper, DType::f32)),
            .inputs = x.inputs};
  if (const char* name = own_of_cutlass(x.op)) return {.name = name, .inputs = x.inputs};
  return of_our_kernels(g, id);
}

Functor identity_functor(ValueId of) { return {.name = "thread::Identity", .inputs = {of}}; }
Functor product_functor(ValueId x) { return {.name = "cutlass::multiplies", .inputs = {x}}; }

}  // namespace unisono::families::cutlass_evt
