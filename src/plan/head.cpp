#include "plan/head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "passes/passes.hpp"
#include "plan/resampling.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

constexpr std::int64_t most_channels = 32;

void check_names(const Epilogue& main, const Graph& graph, const std::string& filter) {
  std::set<std::string> taken;
  for (const Node& x : main.graph.nodes)
    if (x.op == Op::operand) taken.insert(x.attr.name);
  for (const Store& s : main.graph.stores) taken.insert(s.name);
  for (const std::string& name : {main.resampled.pooled, main.resampled.enlarged})
    if (!name.empty()) taken.insert(name);
  std::set<std::string> own{filter};
  for (const Node& x : graph.nodes)
    if (x.op == Op::operand) {
      if (x.attr.name == filter)
        throw UserError(
            fmt::format("CompileOptions::head: its graph reads an operand '{}', as the filter is called", filter));
      own.insert(x.attr.name);
    }
  for (const Store& s : graph.stores) own.insert(s.name);
  for (const std::string& name : own)
    if (taken.contains(name))
      throw UserError(
          fmt::format("CompileOptions::head: the name '{}' is one of the main graph's; expected one of its own", name));
}

void check_graph(const Epilogue& head) {
  const auto refuse = [](const std::string& what) {
    throw Unsupported("head: its graph " + what + "; it may have elementwise operations, and columns as operands");
  };
  if (head.norm) refuse("normalises");
  if (head.general) refuse("reduces, has values of rows, or stores something else than 16 bits");
  if (head.graph.stores.size() != 1)
    refuse(fmt::format("has {} stores, of which one is expected", head.graph.stores.size()));
  if (!main_store(head)) refuse("has no [m,n] store");
  if (!head.tensors_after.empty())
    refuse(fmt::format("reads '{}' with axes [m,n]", head.graph[head.tensors_after[0]].attr.name));
}

}  // namespace

Contraction head_contraction(const Contraction& main, std::int64_t channels, DType type) {
  const Extents e = extents(main);
  if (const auto* g = std::get_if<Gemm>(&main)) {
    if (g->batch != 1)
      throw Unsupported(fmt::format("head: {} products in one; a head has one filter for all rows", g->batch));
    return Gemm{.m = g->m, .n = channels, .k = g->n, .transpose_b = true, .dtype_a = type, .dtype_b = type};
  }
  Conv2d c{.n = e.images, .h = e.height, .w = e.width, .c = e.cols, .k = channels};
  c.dtype_x = c.dtype_w = type;
  return c;
}

HeadConfig head_of(const Epilogue& e) {
  if (!e.head) return {};
  return {.eights = static_cast<int>((e.head->channels + 7) / 8), .only = e.head->only};
}

void add_head(Epilogue& e, const Head& wanted, const Contraction& contraction) {
  if (!wanted.any()) return;
  if (wanted.channels < 1 || wanted.channels > most_channels)
    throw UserError(fmt::format("CompileOptions::head: {} channels; expected 1 to {}, more are a kernel of their own",
                                wanted.channels, most_channels));
  const auto main = main_store(e);
  if (!main) throw Unsupported("head: no result [m,n] of 16 bits is written by TMA, of which to compute it");
  if (e.resampled.any()) throw Unsupported("head: the store is pooled or enlarged too; one of them by one kernel");
  check_names(e, wanted.graph, wanted.filter);
  PlannedHead head{.channels = wanted.channels,
                   .filter = wanted.filter,
                   .only = wanted.only,
                   .contraction = head_contraction(contraction, wanted.channels, e.graph.stores[*main].dtype),
                   .operands = {},
                   .epilogue = {}};
  for (const Node& x : wanted.graph.nodes)
    if (x.op == Op::operand) head.operands.push_back(x.attr.name);
  verify(wanted.graph);
  for (const Store& s : wanted.graph.stores)
    if (s.form != StoreForm::whole)
      throw UserError(fmt::format("CompileOptions::head: its graph stores {}({}); expected a whole store",
                                  to_string(s.form), s.name));
  head.epilogue = analyse(passes::run_pipeline(wanted.graph), extents(head.contraction));
  check_graph(head.epilogue);
  e.head = std::make_shared<const PlannedHead>(std::move(head));
}

std::string to_string(const HeadConfig& head) {
  return !head.any() ? "" : fmt::format("head {}{}", 8 * head.eights, head.only ? " alone" : "");
}

}  // namespace unisono::plan
