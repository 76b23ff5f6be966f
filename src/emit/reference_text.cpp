#include "emit/reference_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "codegen/bounds.hpp"
#include "codegen/precise.hpp"
#include "families/interface/plan.hpp"
#include "ir/node_kinds.hpp"
#include "ir/op_table.hpp"
#include "passes/optimised.hpp"
#include "passes/split_stores.hpp"
#include "support/dtypes.hpp"
#include "tuner/error_model.hpp"
#include "unisono/error.hpp"

namespace unisono::emit {
namespace {

// The column of the table that computes on vectors of float64, as text over x, y, z, p and q
std::string_view formula(Op op) {
  switch (op) {
#define CPU(...) #__VA_ARGS__
#define UNISONO_ELEMENTWISE(NAME, ...) \
  case Op::NAME: {                     \
    return {__VA_ARGS__};              \
  }
#define UNISONO_OTHER(NAME) \
  case Op::NAME: {          \
    break;                  \
  }
#include "ir/operations.inc"
  }
  return {};
}

// The same for integers, over at(i) and bits(i)
std::string_view integer_formula(Op op) {
  switch (op) {
#define CPU_I32(...) #__VA_ARGS__
#define UNISONO_ELEMENTWISE(NAME, ...) \
  case Op::NAME: {                     \
    return {__VA_ARGS__};              \
  }
#define UNISONO_OTHER(NAME) \
  case Op::NAME: {          \
    break;                  \
  }
#include "ir/operations.inc"
  }
  return {};
}

bool is_short(DType t) { return t == DType::bf16 || t == DType::f16 || t == DType::tf32; }

std::string rounded(std::string text, DType t) { return fmt::format("rounded({}, {})", text, type_text(t)); }

std::string rows_text(RowAxis row) {
  return row == RowAxis::m ? "space.rows()" : row == RowAxis::b ? "space.images" : "1";
}
std::string columns_text(const Axes& a) {
  return a.col == ColAxis::n ? "space.columns" : a.col == ColAxis::g ? std::to_string(a.groups) : "1";
}
std::string axes_text(const Axes& a) { return rows_text(a.row) + ", " + columns_text(a); }

const char* coordinate_text(Coordinate c) {
  switch (c) {
    case Coordinate::m: return "row";
    case Coordinate::n: return "column";
    case Coordinate::b: return "row / space.rows_of_image()";
    case Coordinate::h: return "row % space.rows_of_image() / space.width";
    case Coordinate::w: return "row % space.width";
  }
  return "row";
}

const char* extent_text(Coordinate c) {
  switch (c) {
    case Coordinate::m: return "double(space.rows())";
    case Coordinate::n: return "double(space.columns)";
    case Coordinate::b: return "double(space.images)";
    case Coordinate::h: return "double(space.height)";
    case Coordinate::w: return "double(space.width)";
  }
  return "";
}

const char* fold_text(Op op) {
  switch (op) {
    case Op::sum: return "Fold::sum";
    case Op::mean: return "Fold::mean";
    case Op::sum_squares: return "Fold::sum_squares";
    case Op::variance: return "Fold::variance";
    case Op::reduce_max: return "Fold::max";
    default: return "Fold::min";
  }
}

bool has_planes(const Contraction& contraction) {
  return std::visit(
      [](const auto& of) {
        if constexpr (requires { of.layout; }) return of.layout == Layout::nchw;
        return false;
      },
      contraction);
}

std::string lie_text(const Axes& a, RowCoordinates rows, const Contraction& contraction) {
  switch (rows) {
    case RowCoordinates::h: return "Lie::h";
    case RowCoordinates::w: return "Lie::w";
    case RowCoordinates::hw: return "Lie::hw";
    default: return a == axes::mn && has_planes(contraction) ? "Lie::channels_first" : "Lie::rows";
  }
}

// An epilogue's graph is another one where a form of it stands for a softmax: results are of 16 bits then
std::vector<bool> precise_of(const Graph& graph, const plan::Epilogue& epilogue) {
  if (!structurally_equal(graph, epilogue.graph)) return std::vector<bool>(graph.nodes.size());
  return codegen::precise_elements(epilogue);
}

class Writer {
 public:
  Writer(const lower::Lowered& lowered, const Filled& filled)
      : l_(lowered),
        filled_(filled),
        g_(passes::optimised(lowered.problem.graph, lowered.problem.options)),
        precise_(precise_of(g_, lowered.epilogue())),
        model_(tuner::error_model(lowered.problem.contraction, lowered.problem.graph, lowered.problem.options.accurate,
                                  lowered.plan().numerics)) {}

  std::string text() {
    std::string text;
    const auto last = last_uses();
    for (ValueId id = 0; id < g_.nodes.size(); ++id) {
      text += fmt::format("  Values v{} = {};{}\n", id, value(id),
                          g_[id].name.empty() ? "" : fmt::format("  // {}", g_[id].name));
      for (ValueId used = 0; used < id; ++used)
        if (last[used] == id) text += fmt::format("  v{} = Values();\n", used);
    }
    for (const Store& s : g_.stores)
      text += fmt::format("  ok &= agrees(space, {0}, {0}.all(), {1}, v{2}, \"{3}\");\n", tensor(s.name, true),
                          lie_text(g_[s.value].axes, RowCoordinates::all, l_.problem.contraction), s.value, s.name);
    return text;
  }

 private:
  // Which node reads a value last; one that is stored stays
  std::vector<ValueId> last_uses() const {
    std::vector<ValueId> last(g_.nodes.size(), 0);
    for (ValueId id = 0; id < g_.nodes.size(); ++id)
      for (const ValueId in : g_[id].inputs) last[in] = id;
    for (const Store& s : g_.stores) last[s.value] = static_cast<ValueId>(g_.nodes.size());
    return last;
  }

  std::size_t argument(const std::string& name, bool written) const {
    const auto found = std::ranges::find_if(filled_.arguments, [&](const Argument& a) {
      return !a.is_factor && a.is_written == written && a.bound == name;
    });
    if (found == filled_.arguments.end())
      throw InternalError("an emitted check reads " + name + ", which is not given");
    return static_cast<std::size_t>(found - filled_.arguments.begin());
  }
  std::string tensor(const std::string& name, bool written) const {
    return fmt::format("t{}", argument(name, written));
  }
  std::string factor(const char* wanted) const {
    for (std::size_t i = 0; i < filled_.arguments.size(); ++i)
      if (filled_.arguments[i].is_factor && filled_.arguments[i].bound == wanted) return fmt::format("t{}.values", i);
    throw InternalError(fmt::format("no factor {}", wanted));
  }

  std::string accumulator(bool second) const {
    const bool product = std::holds_alternative<Gemm>(l_.problem.contraction);
    return fmt::format("multiplied(space, contraction, {}, {})", factor(product ? "left" : "image"),
                       factor(second    ? "right1"
                              : product ? "right"
                                        : "filter"));
  }

  std::string operand(const Node& x) const {
    const std::string& name = x.attr.name;
    // one that nothing reads after the passes is not an argument, so it has no value here
    const auto given = std::ranges::find_if(
        filled_.arguments, [&](const Argument& a) { return !a.is_factor && !a.is_written && a.bound == name; });
    if (given == filled_.arguments.end())
      return fmt::format("made(space, {}, [](long long, long long) {{ return 0; }})", axes_text(x.axes));
    const auto at = static_cast<std::size_t>(given - filled_.arguments.begin());
    if (!given->is_tensor()) return fmt::format("scalar({})", literal(number_of(l_, filled_, at)));
    return fmt::format("operand(space, t{}, {}, {})", at, lie_text(x.axes, x.attr.rows, l_.problem.contraction),
                       axes_text(x.axes));
  }

  // Roundings to 16 bits of what waits for a mean over rows, where the kernel lets it wait so
  bool waits(const Node& x) const {
    if (x.op != Op::sub || model_.kept_roundoff == 0 || !model_.kept_centred) return false;
    const Node& mean = g_[x.inputs[1]];
    return mean.op == Op::mean && mean.attr.domain.rows && mean.inputs[0] == x.inputs[0];
  }

  std::string bound(ValueId id) const {
    const Node& x = g_[id];
    const bool picks = ir::info(x.op).picks || x.dtype == DType::i32 || x.dtype == DType::boolean;
    codegen::FastBound fast = x.axes == axes::mn && !l_.problem.options.accurate && !precise_[id]
                                  ? codegen::fast_bound(x)
                                  : codegen::FastBound{};
    const double own = picks ? 0 : model_.function_ulps * 0x1p-24;
    return fmt::format("{{{}, {}, {}, {}}}", literal(own + fast.relative),
                       literal(fast.absolute + (picks ? 0 : 0x1p-120)), literal(fast.input), x.op == Op::div ? 1 : 0);
  }

  std::string body(const Node& x) const {
    if (x.op == Op::cast) return fmt::format("return {};", x.dtype == DType::f32 ? "x" : rounded("x", x.dtype));
    if (x.op == Op::one_hot) return "return x == y ? 1.0 : 0.0;";
    if (x.dtype == DType::i32 && !integer_formula(x.op).empty())
      return fmt::format(
          "const auto at = [&](int i) {{ return i == 0 ? x : i == 1 ? y : z; }}; const auto bits = [&](int i) {{ "
          "return "
          "bits_of(at(i)); }}; (void)bits; return {};",
          integer_formula(x.op));
    const auto parameters = ir::info(x.op).parameters;
    std::string text;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      text += fmt::format("const double {} = {}; ", i == 0 ? "p" : "q", literal(x.attr.*parameters[i].field));
    const std::string result(formula(x.op));
    return text +
           fmt::format("return {};", is_short(x.dtype) && !ir::info(x.op).picks ? rounded(result, x.dtype) : result);
  }

  std::string elementwise(ValueId id) const {
    const Node& x = g_[id];
    std::vector<std::string> inputs;
    std::string ahead;
    for (const ValueId in : x.inputs) {
      inputs.push_back(fmt::format("&v{}", in));
      if (model_.kept_roundoff == 0 || model_.kept_centred || !read_behind_[in] || !late_[id]) continue;
      ahead += fmt::format("const Values rounded{0} = rounded_apart({1}, v{0}); ", in, literal(model_.kept_roundoff));
      inputs.back() = fmt::format("&rounded{}", in);
    }
    if (waits(x)) {
      const bool per_image = g_[x.inputs[1]].attr.domain.per_image;
      ahead = fmt::format("const Values waiting = waited(space, {}, space.columns / {}, {}, v{}); ",
                          per_image ? "space.images" : "1", model_.kept_columns, literal(model_.kept_roundoff),
                          x.inputs[0]);
      inputs[0] = "&waiting";
    }
    if (x.op == Op::one_hot) {
      ahead =
          "const Values labels = made(space, 1, space.columns, [](long long, long long column) { return column; }); ";
      inputs.emplace_back("&labels");
    }
    const std::string value = fmt::format(
        "each(space, {}, Bound{}, {{{}}}, []([[maybe_unused]] double x, [[maybe_unused]] double y, "
        "[[maybe_unused]] double z) {{ {} }})",
        axes_text(x.axes), bound(id), fmt::join(inputs, ", "), body(x));
    return ahead.empty() ? value : fmt::format("[&] {{ {}return {}; }}()", ahead, value);
  }

  std::string value(ValueId id) const {
    const Node& x = g_[id];
    switch (x.op) {
      case Op::acc: return accumulator(false);
      case Op::acc1: return accumulator(true);
      case Op::operand: return operand(x);
      case Op::constant: return fmt::format("scalar({})", literal(x.attr.value));
      case Op::extent: return fmt::format("scalar({})", extent_text(x.attr.coordinate));
      case Op::index:
        return fmt::format(
            "made(space, {}, [&](long long row, long long column) {{ (void)row, (void)column; return {}; }})",
            axes_text(x.axes), coordinate_text(x.attr.coordinate));
      default: break;
    }
    if (ir::is_reduction(x.op))
      return fmt::format("folded(space, {}, {}, {}, v{})", axes_text(x.axes), fold_text(x.op),
                         literal(static_cast<double>(model_.longest_chain) + 96), x.inputs[0]);
    return elementwise(id);
  }

  const lower::Lowered& l_;
  const Filled& filled_;
  Graph g_;
  std::vector<bool> precise_;  // by their accurate forms
  std::vector<bool> read_behind_ = ir::read_behind_reductions(g_), late_ = ir::depending(g_, ir::over_rows);
  reference::ErrorModel model_;
};

std::string contraction_text(const Conv3d& c, bool transposed, bool planes, const Contraction& of) {
  const Gemm* product = std::get_if<Gemm>(&of);
  const auto three = [](const auto& x) { return fmt::format("{{{}, {}, {}}}", x.d, x.h, x.w); };
  const std::int64_t planes_of_output = std::holds_alternative<Conv3d>(of) ? output_planes(c) : 1;
  return fmt::format(
      "  constexpr Contraction contraction{{{{{}, {}, {}}}, {}, {}, {{{}, {}, {}}}, {}, {}, {}, {}, {}, {}, {}, {}, "
      "{}, {}, "
      "{}}};\n",
      c.d, c.h, c.w, c.c, c.groups, c.t, c.r, c.s, three(c.stride), three(c.before), three(c.dilation),
      planes_of_output, transposed, planes, product != nullptr, product != nullptr && product->transpose_a,
      product != nullptr && !product->transpose_b, literal(tuner::accumulator_error(of)),
      support::is_multiplied_as_tf32(c.dtype_x));
}

// A contraction as one of volumes; a product as the convolution of its rows
template <class C>
Conv3d volume_of(const C& c) {
  Conv3d v{.n = c.n, .d = 1, .h = c.h, .w = c.w, .c = c.c, .k = c.k, .t = 1, .r = c.r, .s = c.s};
  v.groups = c.groups, v.dtype_x = c.dtype_x, v.dtype_w = c.dtype_w;
  v.stride.d = 1, v.stride.h = c.stride[0], v.stride.w = c.stride[1];
  v.before.d = 0, v.before.h = c.pad[0], v.before.w = c.pad[1];
  v.dilation.d = 1, v.dilation.h = c.dilation[0], v.dilation.w = c.dilation[1];
  return v;
}
Conv3d volume_of(const Conv3d& c) { return c; }
Conv3d volume_of(const FilterGradient2d& g) {
  throw InternalError("a self check of " + to_string(Contraction(g)) + ", for which no kernel of ours is emitted");
}
Conv3d volume_of(const Gemm& g) {
  Conv3d v{.n = g.batch, .d = 1, .h = g.m, .w = 1, .c = g.k, .k = g.n};
  v.dtype_x = g.dtype_a, v.dtype_w = g.dtype_b;
  return v;
}

}  // namespace

std::string literal(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

std::string type_text(DType type) {
  return fmt::format("Type::{}", type == DType::boolean ? "boolean" : to_string(type));
}

std::string problem_text(const Contraction& contraction) {
  const Extents e = extents(contraction);
  return fmt::format("  constexpr Space space{{{}, {}, {}, {}}};\n", e.images, e.height, e.width, e.cols) +
         contraction_text(std::visit([](const auto& c) { return volume_of(c); }, contraction),
                          std::holds_alternative<ConvTranspose2d>(contraction), has_planes(contraction), contraction);
}

double number_of(const lower::Lowered& lowered, const Filled& filled, std::size_t argument) {
  const Argument& a = filled.arguments[argument];
  for (const Node& x : lowered.problem.graph.nodes)
    if (x.op == Op::operand && x.attr.name == a.bound && x.attr.default_value) return *x.attr.default_value;
  if (a.dtype == DType::boolean) return 1;
  if (a.dtype == DType::i32) return 3;
  return -0.5 + 1.25 * static_cast<double>(argument - filled.tensors());  // the first of two limits is the lower one
}

std::optional<std::string> why_unchecked(const lower::Lowered& lowered) {
  const Graph& graph = lowered.problem.graph;
  for (const Node& x : graph.nodes)
    if (x.op == Op::call) return fmt::format("the epilogue calls {}, which has no float64 form", x.attr.name);
  if (passes::split_stores(graph).any()) return "the epilogue has pooled or upsampled stores";
  return std::nullopt;
}

std::string reference_text(const lower::Lowered& lowered, const Filled& filled) {
  return Writer(lowered, filled).text();
}

}  // namespace unisono::emit
