#include "codegen/graph_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "codegen/expression.hpp"
#include "codegen/names.hpp"
#include "codegen/pieces.hpp"
#include "codegen/scope.hpp"
#include "ir/op_table.hpp"
#include "plan/refusal.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::codegen {

namespace {

using Kind = GraphTensor::Kind;

constexpr std::size_t most_tensors = 48;  // kGraphTensors

bool is_reduction(Op op) { return ir::info(op).op_class == ir::OpClass::reduction; }

std::string commented(const std::string& text) {
  std::istringstream lines(text);
  std::string result, line;
  while (std::getline(lines, line)) result += "//   " + line + "\n";
  return result;
}

class KernelWriter {
 public:
  KernelWriter(const Graph& g, const Names& names, const GraphStorage& storage) : g_(g), names_(names), s_(storage) {}

  GraphKernel within_rows(const std::vector<ValueId>& values);
  GraphKernel partials(const std::vector<ValueId>& values);
  GraphKernel join(const std::vector<ValueId>& values);
  GraphKernel stores();

 private:
  std::size_t place(const GraphTensor& tensor) {
    const auto found = std::find(tensors_.begin(), tensors_.end(), tensor);
    if (found != tensors_.end()) return static_cast<std::size_t>(found - tensors_.begin());
    if (tensors_.size() == most_tensors)
      throw Unsupported(fmt::format("the graph reads and writes more than {} tensors", most_tensors));
    tensors_.push_back(tensor);
    return tensors_.size() - 1;
  }
  std::string element_of(const GraphTensor& t, ValueId id) const;
  std::string offset_of(const Axes& axes, std::size_t tensor) const;
  GraphTensor tensor_of(ValueId id) const;
  bool is_leaf(ValueId id) const { return g_[id].op == Op::acc || g_[id].op == Op::operand || is_reduction(g_[id].op); }
  std::string loaded(ValueId id);
  std::string octet_loads();
  std::vector<ValueId> of_images() const;
  std::string given(ValueId id);
  void check(ValueId id) const;
  GraphKernel finish(const std::string& body, const std::string& run, int threads);

  const Graph& g_;
  const Names& names_;
  const GraphStorage& s_;
  std::vector<GraphTensor> tensors_;
  bool by_octets_ = false;       // operands [m,n] come in octets
  std::vector<ValueId> octets_;  // these
};

void KernelWriter::check(ValueId id) const {
  const Node& x = g_[id];
  if (x.op == Op::index || x.op == Op::one_hot || x.op == Op::extent)
    plan::refuse(g_, id, "kernels over a tensor know no coordinates and extents");
  if (x.dtype == DType::f64) plan::refuse(g_, id, "f64 arithmetic");
}

GraphTensor KernelWriter::tensor_of(ValueId id) const {
  const Node& x = g_[id];
  if (x.op == Op::acc) return {Kind::accumulator, "", 0};
  if (x.op == Op::operand) return {Kind::operand, x.attr.name, 0};
  return {Kind::reduction, "", id};
}

std::string KernelWriter::element_of(const GraphTensor& t, ValueId id) const {
  DType type = DType::f32;
  if (t.kind == Kind::accumulator) type = s_.accumulator;
  if (t.kind == Kind::store) type = s_.element;
  if (t.kind == Kind::operand) {
    const auto found = s_.operands.find(t.name);
    type = g_[id].attr.storage.value_or(found == s_.operands.end() ? DType::f32 : found->second);
  }
  if (type != DType::f32 && type != DType::bf16 && type != DType::f16)
    plan::refuse(g_, id,
                 fmt::format("its storage is {}; kernels over a tensor read f32, bf16 and f16", to_string(type)));
  return std::string(element_name(type));
}

std::string KernelWriter::offset_of(const Axes& a, std::size_t tensor) const {
  const std::string row = a.row == RowAxis::m ? "row" : a.row == RowAxis::b ? "image" : "";
  const std::string column = a.col == ColAxis::n   ? "channel"
                             : a.col == ColAxis::g ? fmt::format("channel / (p.columns / {}u)", a.groups)
                                                   : "";
  if (row.empty()) return column.empty() ? "0" : column;
  return fmt::format("{} * p.tensors[{}].pitch{}", row, tensor, column.empty() ? "" : " + " + column);
}

std::string KernelWriter::loaded(ValueId id) {
  const GraphTensor t = tensor_of(id);
  const Axes axes = t.kind == Kind::reduction ? reduced_axes(g_[id].attr.domain) : g_[id].axes;
  const std::size_t i = place(t);
  return fmt::format("plain::element<{}>(p.tensors[{}], {})", element_of(t, id), i, offset_of(axes, i));
}

std::string KernelWriter::given(ValueId id) {
  check(id);
  if (!is_leaf(id)) return "";
  const Node& x = g_[id];
  if (by_octets_ && !is_reduction(x.op) && x.axes == axes::mn) {
    const auto found = std::find(octets_.begin(), octets_.end(), id);
    const auto i = found - octets_.begin();
    if (found == octets_.end()) octets_.push_back(id);
    return fmt::format("column[{}]", i);
  }
  return converted(loaded(id), DType::f32, x.dtype);
}

GraphKernel KernelWriter::finish(const std::string& body, const std::string& run, int threads) {
  GraphKernel k;
  k.entry = "unisono_kernel";
  k.tensors = std::move(tensors_);
  k.threads = threads;
  k.source = "// An epilogue graph over a tensor:\n" + commented(print(g_)) +
             "#include <unisono/plain/plain_graph.cuh>\n\nnamespace unisono {\n\nstruct Values {\n" + body +
             "};\n\n}  // namespace unisono\n\n" +
             fmt::format(
                 "extern \"C\" __global__ void __launch_bounds__({})\n"
                 "unisono_kernel(const __grid_constant__ unisono::GraphParams p) {{\n    using namespace unisono;\n    "
                 "begin();\n{}}}\n",
                 threads, run);
  return k;
}

// Results in a row of results
std::string result_columns(const ReduceDomain& d) { return d.cols ? fmt::format("{}u", d.groups) : "p.columns"; }

// What one result within a row is made of, from the number of the block
std::string domain_text(const ReduceDomain& d) {
  const std::string width = fmt::format("p.columns / {}u", d.groups);
  return fmt::format(
      "    const u32 row = blockIdx.x / {0}, channel = blockIdx.x % {0};\n"
      "    const plain::Domain domain{{row, 1, {1}}};\n",
      result_columns(d), d.cols ? fmt::format("channel * ({0}), {0}", width) : "channel, 1");
}

// ---- Reductions over rows: the state of a slab of rows, and what a whole state gives

std::string_view state_of(Op op) {
  switch (op) {
    case Op::mean:
    case Op::variance: return "plain::MomentState";
    case Op::sum: return "plain::Folded<plain::FoldSum>";
    case Op::sum_squares: return "plain::Folded<plain::FoldSquares>";
    case Op::reduce_max: return "plain::Folded<plain::FoldLargest>";
    case Op::reduce_min: return "plain::Folded<plain::FoldSmallest>";
    default: throw InternalError(fmt::format("{} is no reduction", to_string(op)));
  }
}

std::string_view result_of(Op op) {
  if (op == Op::mean) return "state.of.mean";
  return op == Op::variance ? "state.of.m2 / state.of.count" : "state.value";
}

int state_floats(Op op) { return op == Op::mean || op == Op::variance ? 3 : 1; }

std::string reduction_text(Op op, int threads) {
  const auto over = [&](const char* start, const char* join, const char* value = "value") {
    return fmt::format("plain::reduce<{}>(domain, {}, {}, plain::{}())", threads, start, value, join);
  };
  switch (op) {
    case Op::sum: return over("0.f", "Sum");
    case Op::mean: return fmt::format("plain::mean<{}>(domain, value)", threads);
    case Op::variance: return fmt::format("plain::variance<{}>(domain, value)", threads);
    case Op::sum_squares: return over("0.f", "Sum", "square");
    case Op::reduce_max: return over("-__int_as_float(0x7f800000)", "Largest");
    case Op::reduce_min: return over("__int_as_float(0x7f800000)", "Smallest");
    default: throw InternalError(fmt::format("{} is no reduction", to_string(op)));
  }
}

GraphKernel KernelWriter::within_rows(const std::vector<ValueId>& values) {
  const Node& first = g_[values[0]];
  constexpr int threads = 32;
  Scope scope(g_, names_, true, [this](ValueId id) { return given(id); });
  const ValueId input = first.inputs[0];
  scope.compute(std::vector{input});
  scope.line(fmt::format("return {};", scope.text(input, DType::f32)));
  const std::string body =
      function("float input(const GraphParams& p, u32 image, u32 row, u32 channel)", scope.lines());
  std::string run =
      domain_text(first.attr.domain) +
      "    auto value = [&](u32 r, u32 c) { return Values::input(p, r / p.pixels, r, c); };\n"
      "    [[maybe_unused]] auto square = [&](u32 r, u32 c) { const float x = value(r, c); return x * x; };\n";
  for (const ValueId id : values)
    run += fmt::format("    plain::put_once(p.tensors[{}], blockIdx.x, {});\n", place({Kind::reduction, "", id}),
                       reduction_text(g_[id].op, threads));
  GraphKernel k = finish(body, run, threads);
  k.part = GraphKernel::Part::results;
  k.domain = first.attr.domain;
  return k;
}

std::string KernelWriter::octet_loads() {
  std::string load;
  for (std::size_t i = 0; i < octets_.size(); ++i) {
    const GraphTensor t = tensor_of(octets_[i]);
    load += fmt::format("        column[{}] = plain::load_octet<{}>(p.tensors[{}], row, channel);\n", i,
                        element_of(t, octets_[i]), place(t));
  }
  return function("void load(const GraphParams& p, u32 row, u32 channel, plain::Octet* column)", load);
}

GraphKernel KernelWriter::partials(const std::vector<ValueId>& values) {
  const Node& first = g_[values[0]];
  by_octets_ = true;
  Scope scope(g_, names_, true, [this](ValueId id) { return given(id); });
  const ValueId input = first.inputs[0];
  scope.compute(std::vector{input});
  scope.line(fmt::format("return {};", scope.text(input, DType::f32)));
  const std::string load = octet_loads();
  const std::string body =
      fmt::format("    static constexpr int kInputs = {};\n", octets_.size()) + load +
      function("float input(const GraphParams& p, u32 image, u32 row, u32 channel, const float* column)",
               scope.lines());
  GraphKernel k = finish(body,
                         fmt::format("    plain::partials<{}, Values>(p, {}, p.tensors[{}]);\n", state_of(first.op),
                                     result_columns(first.attr.domain), place({Kind::partials, "", values[0]})),
                         256);
  k.part = GraphKernel::Part::partials;
  k.domain = first.attr.domain;
  k.state_floats = state_floats(first.op);
  return k;
}

GraphKernel KernelWriter::join(const std::vector<ValueId>& values) {
  const Node& first = g_[values[0]];
  const ReduceDomain& d = first.attr.domain;
  const std::size_t from = place({Kind::partials, "", values[0]});
  std::string puts;
  for (const ValueId id : values)
    puts += fmt::format("        plain::put(p.tensors[{}], index, {});\n", place({Kind::reduction, "", id}),
                        result_of(g_[id].op));
  const std::string run = fmt::format(
      "    plain::join_partials<{0}, {1}>(p, {2}, p.tensors[{3}], [&](u32 index, const {0}& state) {{\n{4}    }});\n",
      state_of(first.op), d.per_image, result_columns(d), from, puts);
  GraphKernel k = finish("", run, 256);
  k.part = GraphKernel::Part::join;
  k.domain = d;
  k.state_floats = state_floats(first.op);
  return k;
}

// What the stores need of values that are the same in all rows of an image: a thread computes them once for its
// channels, as long as there are registers for them
std::vector<ValueId> KernelWriter::of_images() const {
  constexpr std::size_t most = 6;
  // Results of a reduction within rows are stored by row, even if the value that was reduced is the same in all of them
  std::vector<bool> by_row(g_.nodes.size());
  for (ValueId id = 0; id < g_.nodes.size(); ++id) {
    const Node& x = g_[id];
    const auto inputs_by_row = [&] {
      return std::any_of(x.inputs.begin(), x.inputs.end(), [&](ValueId input) { return by_row[input]; });
    };
    by_row[id] = is_reduction(x.op) ? reduced_axes(x.attr.domain).row == RowAxis::m
                                    : x.axes.row == RowAxis::m || inputs_by_row();
  }
  const auto fixed = [&](ValueId id) { return !by_row[id]; };
  std::vector<bool> needed(g_.nodes.size());
  std::vector<ValueId> values;
  const auto need = [&](ValueId id) {
    if (!fixed(id)) {
      needed[id] = true;
    } else if (g_[id].op != Op::constant && g_[id].dtype == DType::f32 && values.size() < most &&
               std::find(values.begin(), values.end(), id) == values.end()) {
      values.push_back(id);
    }
  };
  for (const Store& s : g_.stores) need(s.value);
  for (ValueId id = static_cast<ValueId>(g_.nodes.size()); id-- > 0;)
    if (needed[id] && !is_leaf(id))
      for (const ValueId input : g_[id].inputs) need(input);
  std::sort(values.begin(), values.end());
  return values;
}

GraphKernel KernelWriter::stores() {
  by_octets_ = true;
  const std::vector<ValueId> fixed = of_images();
  Scope once(g_, names_, true, [this](ValueId id) { return given(id); });
  once.compute(fixed);
  for (std::size_t i = 0; i < fixed.size(); ++i)
    once.line(fmt::format("fixed[{}] = {};", i, once.text(fixed[i], DType::f32)));
  // 16-bit results: the forms that are good for them
  Scope scope(g_, names_, false, [&](ValueId id) {
    const auto found = std::find(fixed.begin(), fixed.end(), id);
    if (found == fixed.end()) return given(id);
    return converted(fmt::format("fixed[{}]", found - fixed.begin()), DType::f32, g_[id].dtype);
  });
  std::vector<ValueId> values;
  for (const Store& s : g_.stores) values.push_back(s.value);
  scope.compute(values);
  for (std::size_t i = 0; i < g_.stores.size(); ++i)
    scope.line(fmt::format("tensor[{}] = {};", i, scope.text(g_.stores[i].value, DType::f32)));
  const std::string load = octet_loads();
  std::string store;
  for (std::size_t i = 0; i < g_.stores.size(); ++i)
    store += fmt::format("        plain::store_octet<{}>(p.tensors[{}], row, channel, tensor[{}]);\n",
                         element_name(s_.element), place({Kind::store, g_.stores[i].name, 0}), i);
  const std::string body =
      fmt::format("    static constexpr int kInputs = {}, kFixed = {}, kOutputs = {};\n", octets_.size(), fixed.size(),
                  g_.stores.size()) +
      function("void fix(const GraphParams& p, u32 image, u32 channel, float* fixed)", once.lines()) + load +
      function(
          "void element(const GraphParams& p, u32 image, u32 row, u32 channel, const float* fixed, const float* "
          "column, "
          "float* tensor)",
          scope.lines()) +
      function("void store(const GraphParams& p, u32 row, u32 channel, const plain::Octet* tensor)", store);
  return finish(body, "    plain::elements<Values>(p);\n", 256);
}

}  // namespace

std::vector<GraphKernel> graph_kernels(const Graph& g, const GraphStorage& storage) {
  if (!g.effects.empty()) throw Unsupported("calls that return nothing are in no kernel over a tensor");
  const Names names(g);
  std::vector<std::vector<ValueId>> groups;
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    const Node& x = g[id];
    if (!is_reduction(x.op)) continue;
    const auto same = [&](const std::vector<ValueId>& group) {
      const Node& y = g[group[0]];
      return y.inputs == x.inputs && y.attr.domain == x.attr.domain &&
             (!x.attr.domain.rows || state_of(y.op) == state_of(x.op));
    };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end())
      groups.push_back({id});
    else
      found->push_back(id);
  }
  std::vector<GraphKernel> kernels;
  for (const auto& group : groups) {
    const auto writer = [&] { return KernelWriter(g, names, storage); };
    if (!g[group[0]].attr.domain.rows) {
      kernels.push_back(writer().within_rows(group));
      continue;
    }
    kernels.push_back(writer().partials(group));
    kernels.push_back(writer().join(group));
  }
  kernels.push_back(KernelWriter(g, names, storage).stores());
  return kernels;
}

// ---- Kernels that are not generated but chosen

std::string_view to_string(PlainKernel kernel) {
  switch (kernel) {
    case PlainKernel::enter: return "enter";
    case PlainKernel::leave: return "leave";
    case PlainKernel::pool: return "pool";
    case PlainKernel::resize: return "resize";
    case PlainKernel::copy_elements: return "copy_elements";
    case PlainKernel::copy_octets: return "copy_octets";
    case PlainKernel::reshape: return "reshape";
    case PlainKernel::direct: return "direct";
    case PlainKernel::join_moments: return "join_moments";
  }
  throw InternalError("a plain kernel without a name");
}

std::string plain_entry(PlainKernel kernel) { return fmt::format("unisono_{}", to_string(kernel)); }

std::string plain_source(DType element) {
  const std::string_view type = element_name(element);
  std::string text =
      "// The kernels of a network that are not generated from a graph.\n#include <unisono/plain/plain.cuh>\n"
      "#include <unisono/plain/plain_moments.cuh>\n";
  const auto add = [&](PlainKernel kernel, std::string_view parameters, const std::string& call) {
    text += fmt::format(
        "\nextern \"C\" __global__ void __launch_bounds__(256)\n"
        "{}(const __grid_constant__ unisono::{} p) {{\n    using namespace unisono;\n    begin();\n    "
        "plain::{}(p);\n}}\n",
        plain_entry(kernel), parameters, call);
  };
  add(PlainKernel::enter, "BorderParams", fmt::format("enter<{}>", type));
  add(PlainKernel::leave, "BorderParams", fmt::format("leave<{}>", type));
  add(PlainKernel::pool, "PoolParams", fmt::format("pool<{}>", type));
  add(PlainKernel::resize, "ResizeParams", fmt::format("resize<{}>", type));
  add(PlainKernel::copy_elements, "CopyParams", "copy<u16>");
  add(PlainKernel::copy_octets, "CopyParams", "copy<uint4>");
  add(PlainKernel::reshape, "ReshapeParams", "reshape");
  add(PlainKernel::direct, "DirectParams", fmt::format("direct<{}>", type));
  add(PlainKernel::join_moments, "JoinMomentsParams", "join_moments");
  return text;
}

}  // namespace unisono::codegen
