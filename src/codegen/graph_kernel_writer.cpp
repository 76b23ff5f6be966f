#include "codegen/graph_kernel_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "codegen/expression.hpp"
#include "codegen/image_values.hpp"
#include "codegen/pieces.hpp"
#include "codegen/reduction_text.hpp"
#include "codegen/scope.hpp"
#include "ir/op_table.hpp"
#include "unisono/text.hpp"

namespace unisono::codegen {

bool is_reduction(Op op) { return ir::info(op).op_class == ir::OpClass::reduction; }

namespace {

using Kind = GraphTensor::Kind;

constexpr std::size_t most_tensors = 48;  // kGraphTensors

std::string commented(const std::string& text) {
  std::istringstream lines(text);
  std::string result, line;
  while (std::getline(lines, line)) result += "//   " + line + "\n";
  return result;
}

}  // namespace

std::size_t KernelWriter::place(const GraphTensor& tensor) {
  const auto found = std::find(tensors_.begin(), tensors_.end(), tensor);
  if (found != tensors_.end()) return static_cast<std::size_t>(found - tensors_.begin());
  if (tensors_.size() == most_tensors)
    refuse(plan::because(fmt::format("the graph reads and writes more than {} tensors", most_tensors)));
  tensors_.push_back(tensor);
  return tensors_.size() - 1;
}

bool KernelWriter::is_leaf(ValueId id) const {
  return g_[id].op == Op::acc || g_[id].op == Op::operand || is_reduction(g_[id].op);
}

void KernelWriter::check(ValueId id) {
  const Node& x = g_[id];
  if (x.op == Op::index || x.op == Op::one_hot || x.op == Op::extent)
    refuse(plan::refusal_at(g_, id, "kernels over a tensor know no coordinates and extents"));
  if (x.dtype == DType::f64) refuse(plan::refusal_at(g_, id, "f64 arithmetic"));
}

GraphTensor KernelWriter::tensor_of(ValueId id) const {
  const Node& x = g_[id];
  if (x.op == Op::acc) return {Kind::accumulator, "", 0};
  if (x.op == Op::operand) return {Kind::operand, x.attr.name, 0};
  return {Kind::reduction, "", id};
}

std::string KernelWriter::element_of(const GraphTensor& t, ValueId id) {
  DType type = DType::f32;
  if (t.kind == Kind::accumulator) type = s_.accumulator;
  if (t.kind == Kind::store && !s_.stores_in_f32.contains(t.name)) type = s_.element;
  if (t.kind == Kind::operand) {
    const auto found = s_.operands.find(t.name);
    type = g_[id].attr.storage.value_or(found == s_.operands.end() ? DType::f32 : found->second);
  }
  if (type != DType::f32 && type != DType::bf16 && type != DType::f16)
    refuse(plan::refusal_at(
        g_, id, fmt::format("its storage is {}; kernels over a tensor read f32, bf16 and f16", to_string(type))));
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
  if (check(id); refusal_) return "0";  // the text is of no use any more
  if (!is_leaf(id)) return "";
  const Node& x = g_[id];
  if (in_registers_ && is_reduction(x.op)) {
    const auto i = std::find(reduced_.begin(), reduced_.end(), id) - reduced_.begin();
    return converted(fmt::format("reduced[{}]", i), DType::f32, x.dtype);
  }
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
             "#include <unisono/plain/plain_rows.cuh>\n\nnamespace unisono {\n\nstruct Values {\n" + body +
             "};\n\n}  // namespace unisono\n\n" +
             fmt::format(
                 "extern \"C\" __global__ void __launch_bounds__({})\n"
                 "unisono_kernel(const __grid_constant__ unisono::GraphParams p) {{\n    using namespace unisono;\n    "
                 "begin();\n{}}}\n",
                 threads, run);
  return k;
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

// What the stores are made of: values of an image's channels, what is loaded, an element, what is stored
std::string KernelWriter::elements() {
  octets_.clear();
  const std::vector<ValueId> fixed = values_of_images(g_);
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
  for (std::size_t i = 0; i < g_.stores.size(); ++i) {
    const GraphTensor to{Kind::store, g_.stores[i].name, 0};
    store += fmt::format("        plain::store_octet<{}>(p.tensors[{}], row, channel, tensor[{}]);\n",
                         element_of(to, g_.stores[i].value), place(to), i);
  }
  const std::string reduced = in_registers_ ? "const float* reduced, " : "";
  return fmt::format("    static constexpr int kInputs = {}, kFixed = {}, kOutputs = {};\n", octets_.size(),
                     fixed.size(), g_.stores.size()) +
         function("void fix(const GraphParams& p, u32 image, u32 channel, float* fixed)", once.lines()) + load +
         function(
             "void element(const GraphParams& p, u32 image, u32 row, u32 channel, const float* fixed, const float* "
             "column, " +
                 reduced + "float* tensor)",
             scope.lines()) +
         function("void store(const GraphParams& p, u32 row, u32 channel, const plain::Octet* tensor)", store);
}

GraphKernel KernelWriter::stores() {
  by_octets_ = true;
  return finish(elements(), "    plain::elements<Values>(p);\n", 256);
}

}  // namespace unisono::codegen
