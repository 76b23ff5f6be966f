#include "tuning/key.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "codegen/codegen.hpp"
#include "ir/op_table.hpp"
#include "ir/products.hpp"
#include "plan/resampling.hpp"
#include "support/hash.hpp"

namespace unisono::tuning {
namespace {

/// "2", or "2x1" if the numbers differ.
std::string text_of(const Pair& p) { return p == Pair(p.h) ? fmt::format("{}", p.h) : fmt::format("{}x{}", p.h, p.w); }

/// "1", or "1.0.1.0" if the sides differ.
std::string text_of(const Margins& m) {
  if (m == Margins(m.top)) return fmt::format("{}", m.top);
  return fmt::format("{}.{}.{}.{}", m.top, m.left, m.bottom, m.right);
}

std::string problem_text(const plan::ConvTask& task) {
  const Conv2d& c = task.conv;
  std::string text = fmt::format("{},{},{},{}->{},{}x{}", c.n, c.h, c.w, c.c, c.k, c.r, c.s);
  if (c.r * c.s > 1 || c.pad != Margins(0)) text += fmt::format(",pad={}", text_of(c.pad));
  if (c.stride != Pair(1)) text += fmt::format(",stride={}", text_of(c.stride));
  if (c.dilation != Pair(1)) text += fmt::format(",dilation={}", text_of(c.dilation));
  if (c.groups != 1) text += fmt::format(",groups={}", c.groups);
  if (c.layout == Layout::nchw) text += ",nchw";
  if (const auto& v = task.volume)
    text += fmt::format(",planes={}x{}/{}+{}-{}*{}", v->d, v->t, v->stride.d, v->before.d, v->after.d, v->dilation.d);
  if (task.transposed) text += fmt::format(",transposed={}", text_of(task.transposed->output_pad));
  if (task.columns_a) text += ",a=km";
  if (task.columns_b) text += ",b=kn";
  if (task.batched) text += ",batched";
  if (task.products > 1) text += ",dual";
  if (task.gradient) text += ",wgrad";
  if (!task.group_rows.empty()) text += fmt::format(",groups={}", fmt::join(task.group_rows, "+"));
  text += fmt::format(",dtype={}", to_string(c.dtype_x));
  if (c.dtype_w != c.dtype_x) text += fmt::format("*{}", to_string(c.dtype_w));
  return text;
}

/// Everything of a graph but names of values and numbers, which no plan depends on.
std::string graph_text(const Graph& g) {
  std::string text;
  std::map<std::string, std::size_t> operands;
  for (const Node& x : g.nodes) {
    text +=
        fmt::format("{}({}){}:{}", to_string(x.op), fmt::join(x.inputs, ","), to_string(x.axes), to_string(x.dtype));
    const ReduceDomain& d = x.attr.domain;
    if (d.rows || d.cols) text += fmt::format(" over {}{}{}/{}", d.rows, d.cols, d.per_image, d.groups);
    if (x.op == Op::operand) text += fmt::format(" {}", operands.emplace(x.attr.name, operands.size()).first->second);
    if (x.attr.storage) text += fmt::format(" as {}", to_string(*x.attr.storage));
    if (x.attr.rows != RowCoordinates::all) text += fmt::format(" rows {}", static_cast<int>(x.attr.rows));
    if (x.attr.strided) text += " strided";
    if (x.op == Op::call) text += ' ' + x.attr.name;
    if (x.op == Op::index || x.op == Op::extent) text += fmt::format(" {}", static_cast<int>(x.attr.coordinate));
    text += '\n';
  }
  for (const Store& s : g.stores)
    text += fmt::format("store {} {}{}\n", s.value, to_string(s.dtype), s.strided ? " strided" : "");
  text += fmt::format("effects {}\n", fmt::join(g.effects, ","));
  return text;
}

/// For people: "norm/10 silu 2 stores".
std::string words_of(const plan::Epilogue& e) {
  std::vector<std::string> words;
  if (e.general()) words.emplace_back("general");
  if (e.normalises_rows()) words.emplace_back("norm/pixel");
  if (e.norm() && !e.normalises_rows())
    words.push_back(fmt::format("norm/{}{}", e.normalised()->group_channels, e.normalised()->batch ? "/batch" : ""));
  using ir::OpClass;
  const auto plain = [](Op op) {
    const OpClass c = ir::info(op).op_class;
    return c == OpClass::reduction || ir::is_accumulator(op) || op == Op::operand || op == Op::constant ||
           op == Op::add || op == Op::sub || op == Op::mul || op == Op::fma || op == Op::cast || op == Op::neg;
  };
  std::set<Op> seen;
  std::set<std::string> tensors;
  for (const Node& x : e.graph.nodes) {
    if (x.axes == axes::mn && !plain(x.op) && seen.insert(x.op).second) words.emplace_back(to_string(x.op));
    if (x.op == Op::operand && x.axes == axes::mn) tensors.insert(x.attr.name);
  }
  if (!tensors.empty()) words.push_back(fmt::format("+{}", tensors.size()));
  if (e.graph.stores.size() > 1) words.push_back(fmt::format("{} stores", e.graph.stores.size()));
  if (words.empty()) words.emplace_back(e.graph.nodes.size() == 1 ? "bare" : "linear");
  if (e.resampled.any()) words.push_back(plan::to_string(plan::resampling_of(e.resampled)));
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

Key key_of(const plan::ConvTask& task, const plan::Epilogue& epilogue) {
  return {problem_text(task),
          fmt::format("{} #{}", words_of(epilogue), support::hash(graph_text(epilogue.graph)).substr(0, 12))};
}

Platform platform_of(const plan::Device& device) {
  static const std::string kernels = [] {
    support::Hasher hasher;
    for (const codegen::Header& h : codegen::device_headers()) hasher.field(h.name).field(h.text);
    return hasher.digest().substr(0, 12);
  }();
  return {device.name, device.sms, device.driver, kernels};
}

}  // namespace unisono::tuning
