#include "codegen/expression.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "ir/infer.hpp"
#include "ir/op_table.hpp"
#include "unisono/error.hpp"

namespace unisono::codegen {

namespace {

bool is_short(DType t) { return t == DType::bf16 || t == DType::f16 || t == DType::tf32; }

// The dtype in which the inputs of a node meet
DType meeting(const Graph& g, const Node& x) {
  switch (ir::info(x.op).op_class) {
    case ir::OpClass::comparison: {
      std::vector<const Node*> inputs;
      for (const ValueId in : x.inputs) inputs.push_back(&g[in]);
      return ir::infer(Op::add, inputs, {}, {}).dtype;
    }
    case ir::OpClass::logical: return DType::boolean;
    default: return x.dtype;  // i32 arithmetic gives i32; all other arithmetic is that of f32
  }
}

// Whether the value may differ from what its dtype holds: arithmetic in f32 of shorter types
bool needs_rounding(const Graph& g, const Node& x) {
  if (!is_short(x.dtype)) return false;
  if (!ir::info(x.op).picks && x.op != Op::cast) return true;
  return !std::all_of(x.inputs.begin() + (x.op == Op::select ? 1 : 0), x.inputs.end(),
                      [&](ValueId in) { return g[in].op != Op::constant && g[in].dtype == x.dtype; });
}

class Writer {
 public:
  Writer(const Graph& g, const Node& x, std::span<const std::string> inputs, bool accurate)
      : g_(g), x_(x), inputs_(inputs), meeting_(meeting(g, x)), two_forms_(accurate ? "math::accurate" : "math") {}

  std::string text() const {
    std::string t = value();
    if (needs_rounding(g_, x_)) t = fmt::format("math::round_{}({})", to_string(x_.dtype), t);
    return t;
  }

 private:
  bool is_constant(std::size_t i) const { return g_[x_.inputs[i]].op == Op::constant; }
  double constant(std::size_t i) const { return g_[x_.inputs[i]].attr.value; }

  std::string in(std::size_t i, DType as) const {
    return is_constant(i) ? literal(constant(i), as) : converted(inputs_[i], g_[x_.inputs[i]].dtype, as);
  }
  std::string in(std::size_t i) const { return in(i, meeting_); }
  std::string real(std::size_t i) const { return in(i, DType::f32); }

  std::string infix(std::string_view symbol) const { return fmt::format("{} {} {}", in(0), symbol, in(1)); }
  // i32 wraps, which C++ integers do not
  std::string sum(std::string_view name, std::string_view symbol) const {
    return meeting_ == DType::i32 ? exact(name) : infix(symbol);
  }
  std::string exact(std::string_view name) const {
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < x_.inputs.size(); ++i) arguments.push_back(in(i));
    return fmt::format("math::{}({})", name, fmt::join(arguments, ", "));
  }
  std::string exact(std::string_view name, std::initializer_list<double> parameters) const {
    std::string arguments = real(0);
    for (const double v : parameters) arguments += ", " + literal(v, DType::f32);
    return fmt::format("math::{}({})", name, arguments);
  }
  std::string called(std::string_view scope) const {
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < x_.inputs.size(); ++i) arguments.push_back(real(i));
    return fmt::format("{}::{}({})", scope, to_string(x_.op), fmt::join(arguments, ", "));
  }
  // A function of f32 that has one form, or one for 16-bit outputs and one for others
  std::string of_reals() const { return called("math"); }
  std::string two_forms() const { return called(two_forms_); }
  // An expression over {x}, the attributes {p} and {q}, and {math}, where the functions of two forms are
  std::string text(std::string_view form) const {
    const auto parameters = ir::info(x_.op).parameters;
    const auto parameter = [&](std::size_t i) {
      return i < parameters.size() ? literal(x_.attr.*parameters[i].field, DType::f32) : std::string();
    };
    return fmt::format(fmt::runtime(form), fmt::arg("x", real(0)), fmt::arg("p", parameter(0)),
                       fmt::arg("q", parameter(1)), fmt::arg("math", two_forms_));
  }
  bool accurate() const { return two_forms_ != "math"; }

  std::string quotient() const {
    // A constant that has a normal reciprocal: one product, as good as a product with an approximate reciprocal
    if (!accurate() && is_constant(1) && std::abs(constant(1)) > 0x1p-125 && std::abs(constant(1)) < 0x1p125)
      return fmt::format("{} * {}", real(0), literal(1 / constant(1), DType::f32));
    return fmt::format("{}::div({}, {})", two_forms_, real(0), real(1));
  }

  std::string leaky_relu() const {
    const double slope = x_.attr.alpha;
    return exact(slope > 0 && slope <= 1 ? "leaky_relu_below_1" : "leaky_relu", {slope});
  }

  std::string clamp() const {
    const double lower = x_.attr.lower, upper = x_.attr.upper;
    if (std::isinf(upper) && std::isinf(lower)) return real(0);
    if (std::isinf(upper)) return exact("max", {lower});
    if (std::isinf(lower)) return exact("min", {upper});
    return exact("clamp", {lower, upper});
  }

  std::string cast() const {
    const DType from = g_[x_.inputs[0]].dtype;
    return is_constant(0) ? literal(constant(0), DType::f32)
                          : converted(inputs_[0], from, is_float(x_.dtype) ? DType::f32 : x_.dtype);
  }

  std::string argument(std::size_t i, ParameterType type) const {
    if (type == ParameterType::float32) return real(i);
    const std::string integer = in(i, DType::i32);
    return type == ParameterType::int32 ? integer : fmt::format("static_cast<long long>({})", integer);
  }

  std::string call() const {
    const UserFunction& f = *g_.functions.at(x_.attr.name);
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < x_.inputs.size(); ++i) arguments.push_back(argument(i, f.parameter(i)));
    return call_text(f, std::move(arguments));
  }

  std::string choice() const { return fmt::format("{} ? {} : {}", in(0, DType::boolean), in(1), in(2)); }
  std::string negated() const { return meeting_ == DType::i32 ? exact("neg") : fmt::format("-{}", in(0)); }

  // Whether the label is the current channel
  std::string one_hot() const {
    const DType label = g_[x_.inputs[0]].dtype == DType::i32 ? DType::i32 : DType::f32;
    return fmt::format("{} == {} ? 1.f : 0.f", in(0, label), converted("channel", DType::i32, label));
  }

  std::string value() const {
    switch (x_.op) {
#define CUDA(...) __VA_ARGS__
#define UNISONO_ELEMENTWISE(NAME, ...) \
  case Op::NAME: {                     \
    return __VA_ARGS__;                \
  }
#define UNISONO_CONVERSION(NAME, ...) \
  case Op::NAME: {                    \
    return __VA_ARGS__;               \
  }
#define UNISONO_CALL(NAME) \
  case Op::NAME: {         \
    return call();         \
  }
#define UNISONO_OTHER(NAME) \
  case Op::NAME: {          \
    break;                  \
  }
#include "ir/operations.inc"
    }
    throw InternalError(fmt::format("{} is not an elementwise operation", to_string(x_.op)));
  }

  const Graph& g_;
  const Node& x_;
  std::span<const std::string> inputs_;
  DType meeting_;
  std::string_view two_forms_;
};

}  // namespace

std::string_view type_of(DType t) { return t == DType::i32 ? "int" : t == DType::boolean ? "bool" : "float"; }

std::string literal(double value, DType t) {
  if (t == DType::boolean) return value != 0 ? "true" : "false";
  if (t == DType::i32)
    return value == -0x1p31 ? "int(0x80000000u)" : fmt::format("{}", static_cast<std::int64_t>(value));
  if (std::isnan(value)) return "__int_as_float(0x7fc00000)";
  const bool overflows = std::abs(value) > static_cast<double>(std::numeric_limits<float>::max()) * (1 + 0x1p-25);
  if (overflows) return value > 0 ? "__int_as_float(0x7f800000)" : "-__int_as_float(0x7f800000)";
  std::string text = fmt::format("{}", static_cast<float>(value));  // the shortest that reads back as the same float
  if (text.find_first_of(".e") == text.npos) text += ".";
  return (text[0] == '-' ? "(" : "") + text + "f" + (text[0] == '-' ? ")" : "");
}

std::string converted(const std::string& text, DType from, DType to) {
  const std::string_view source = type_of(from), target = type_of(to);
  if (source == target) return text;
  if (target == "bool") return fmt::format("({} != {})", text, literal(0, from));
  if (target == "int" && source == "float") return fmt::format("math::to_i32({})", text);
  return fmt::format("{}({})", target, text);
}

std::string call_text(const UserFunction& f, std::vector<std::string> arguments) {
  if (f.cuda_source.empty())
    throw UserError(fmt::format(
        "function {} has no cuda_source: expected C++ text that defines __device__ float {}(…); give it, or "
        "run the graph on the CPU device",
        f.name, f.name));
  for (const CapturedPointer& p : f.pointers)
    arguments.push_back(fmt::format("static_cast<{}>(u.{})", p.type, pointer_member(p.name)));
  return fmt::format("::{}({})", f.name, fmt::join(arguments, ", "));
}

std::string pointer_member(std::string_view name) { return fmt::format("captured__{}", name); }

std::string expression(const Graph& graph, ValueId id, std::span<const std::string> inputs, bool accurate) {
  return Writer(graph, graph[id], inputs, accurate).text();
}

}  // namespace unisono::codegen
