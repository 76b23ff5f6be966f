// The visitor of kernels/unisono/epilogue/general.cuh: rows, reductions over their channels, results of any type.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "codegen/expression.hpp"
#include "codegen/pieces.hpp"
#include "codegen/precise.hpp"
#include "codegen/visitor.hpp"
#include "ir/op_table.hpp"
#include "ir/products.hpp"
#include "plan/visitor_shape.hpp"

namespace unisono::codegen {

namespace {

using plan::Statistics;
using StorePath = plan::Output::StorePath;

bool is_row(const Node& x) { return x.axes == axes::m; }
bool is_full(const Node& x) { return x.axes == axes::mn; }
bool is_group_fold(const Node& x) {
  return ir::is_reduction(x.op) && x.axes.row == RowAxis::m && x.axes.col == ColAxis::g;
}

}  // namespace

// ---- Lists

std::vector<ValueId> VisitorWriter::folds(FoldList list) const {
  std::vector<ValueId> all;
  for (const Statistics& d : e_.folds()) {
    const auto& from = list == FoldList::moments ? d.moments : d.folds;
    if (list == FoldList::moments || (d.groups() == 1) == (list == FoldList::tile))
      all.insert(all.end(), from.begin(), from.end());
  }
  return all;
}

VisitorWriter::Bindings VisitorWriter::element_bindings() const {
  Bindings bindings;
  bindings.columns = &e_.reads.columns;
  bindings.tensors = &e_.reads.tensors;
  bindings.channel = "channel";
  for (ValueId id = 0; id < g_.nodes.size(); ++id) {
    if (ir::is_accumulator(g_[id].op)) bindings.values[id] = accumulator(g_[id].op, e_.reads.tensors);
    if (is_row(g_[id]) || is_group_fold(g_[id])) bindings.values[id] = "row." + names_.of(id);
  }
  return bindings;
}

// What is known of a row at its end
VisitorWriter::Bindings VisitorWriter::row_bindings() const {
  Bindings bindings;
  for (ValueId id = 0; id < g_.nodes.size(); ++id)
    if (is_row(g_[id]) || is_group_fold(g_[id])) bindings.values[id] = "row." + names_.of(id);
  return bindings;
}

// Values of an image, and scalars, that values [m] read once reductions are complete, where operands are unavailable
std::set<ValueId> VisitorWriter::kept_in_rows() const {
  std::set<ValueId> kept;
  for (ValueId id = 0; id < g_.nodes.size(); ++id) {
    if (!is_row(g_[id]) || level_of_[id] == 0 || is_effect(id)) continue;
    for (const ValueId in : g_[id].inputs)
      if (g_[in].axes == axes::b && !late_[in]) kept.insert(in);
  }
  return kept;
}

// ---- Rows

std::string VisitorWriter::rows() {
  std::string members;
  for (ValueId id = 0; id < g_.nodes.size(); ++id)
    if (is_row(g_[id]) || is_group_fold(g_[id]))
      members += fmt::format("        {} {};\n", type_of(g_[id].dtype), names_.of(id));
  Bindings bindings;
  bindings.in_row = true;
  bindings.image = "at.image";
  Scope s = scope(bindings, true);
  s.line("Row row;");
  fill_rows(s, 0);
  for (const ValueId id : kept_in_rows()) {
    members += fmt::format("        {} {};\n", type_of(g_[id].dtype), names_.of(id));
    s.compute(std::vector{id});
    s.line(fmt::format("row.{} = {};", names_.of(id), s.text(id, g_[id].dtype)));
  }
  s.line("return row;");
  std::string text =
      structure("Row", members) + function("Row row(const Params& p, const Uniform& u, const Where& at)", s.lines());
  return text + levels();
}

// Values [m] that are known once so many levels are complete
void VisitorWriter::fill_rows(Scope& s, int level) {
  for (ValueId id = 0; id < g_.nodes.size(); ++id) {
    if (!is_row(g_[id]) || level_of_[id] != level || is_effect(id)) continue;
    s.compute(std::vector{id});
    s.line(fmt::format("row.{} = {};", names_.of(id), s.text(id, g_[id].dtype)));
  }
}

// Values [m] that follow once a level's reductions are complete, folded[i]
std::string VisitorWriter::conclusions(std::size_t level) {
  Bindings after;
  if (e_.returns()) after.columns = &e_.reads.columns;
  for (const ValueId id : kept_in_rows()) after.values[id] = "row." + names_.of(id);
  for (ValueId id = 0; id < g_.nodes.size(); ++id)
    if (is_row(g_[id]) && level_of_[id] <= static_cast<int>(level)) after.values[id] = "row." + names_.of(id);
  const std::vector<ValueId> list = e_.levels()[level].rows();
  for (std::size_t i = 0; i < list.size(); ++i)
    after.values[list[i]] = fmt::format("folded[{}]{}", i, g_[list[i]].op == Op::mean ? " / channels" : "");
  Scope end = scope(after, true);
  fill_rows(end, static_cast<int>(level) + 1);
  return end.lines();
}

std::string VisitorWriter::levels() {
  std::string contributed, concluded;
  std::vector<std::string> counts, kinds;
  const std::span<const plan::Stage> stages = e_.levels();
  for (std::size_t l = 0; l < stages.size(); ++l) {
    const std::vector<ValueId> rows = stages[l].rows(), groups = stages[l].groups();
    contributed += branch("level", l, shared_terms({&rows, &groups}));
    concluded += branch("level", l, conclusions(l));
    std::vector<std::string> kinds_here;
    for (const ValueId id : rows) kinds_here.emplace_back(fold_name(g_[id].op));
    counts.push_back(fmt::format("{}", rows.size()));
    kinds.push_back(fmt::format("({})", chosen(kinds_here, "Fold::kSum")));
  }
  for (auto* list : {&counts, &kinds})
    for (std::size_t l = 0; l + 1 < list->size(); ++l) (*list)[l] = fmt::format("level == {} ? {} : ", l, (*list)[l]);
  return fmt::format("    static constexpr int kLevels = {};\n", stages.size()) +
         fmt::format("    static UNISONO_DEVICE constexpr int row_folds(int level) {{ return {}; }}\n",
                     counts.empty() ? "1" : fmt::format("{}", fmt::join(counts, ""))) +
         fmt::format("    static UNISONO_DEVICE constexpr Fold row_fold(int level, int i) {{ return {}; }}\n",
                     kinds.empty() ? "Fold::kSum" : fmt::format("{}", fmt::join(kinds, ""))) +
         "    template <int level>\n" +
         function(
             "void contribute(float acc, const float* column, const float* tensor, const Uniform& u, const Row& "
             "row, int channel, float* value)",
             contributed) +
         "    template <int level>\n" +
         function(fmt::format("void conclude(const Uniform& u, float channels, const float* folded, {}Row& row)",
                              e_.returns() ? "const float* column, " : ""),
                  concluded);
}

// ---- Elements

bool VisitorWriter::is_effect(ValueId id) const {
  return std::find(g_.effects.begin(), g_.effects.end(), id) != g_.effects.end();
}

void VisitorWriter::call_effects(Scope& s, bool full, const char* condition) {
  for (const ValueId id : g_.effects) {
    if (is_full(g_[id]) != full) continue;
    s.compute(g_[id].inputs);
    std::vector<std::string> texts;
    for (const ValueId in : g_[id].inputs) texts.push_back(s.text(in, g_[in].dtype));
    s.line(expression(g_, id, texts, true).insert(0, condition) + ";");
  }
}

VisitorWriter::ElementText VisitorWriter::fill_element(Scope& s, bool effects) {
  ElementText t;
  s.line("Result result;");
  if (std::ranges::any_of(g_.stores, [](const Store& store) { return store.strided; })) {
    t.members += "        int m, channel;\n";
    s.line("result.m = at.m, result.channel = channel;");
  }
  for (std::size_t o = 0; o < e_.outputs.size(); ++o) {
    const plan::Output& output = e_.outputs[o];
    if (output.path != StorePath::after && output.path != StorePath::direct) continue;
    const DType stored = g_.stores[output.store].dtype;
    const DType held = stored == DType::i32 || stored == DType::boolean ? stored : DType::f32;
    const ValueId value = stored_value(o);
    s.compute(std::vector{value});
    s.line(fmt::format("result.r{} = {};", o, s.text(value, held)));
    t.members += fmt::format("        {} r{};\n", type_of(held), o);
    if (output.path == StorePath::after) {
      t.tiled.push_back(fmt::format("x.r{}", o));
      continue;
    }
    t.puts += put_text(o, true), t.single_puts += put_text(o, false);
  }
  if (effects) call_effects(s, true, "if (exists) ");
  const bool works = !e_.outputs.empty() && !t.members.empty();
  const std::string body_of_folds = fold_terms(s);
  t.any = works || !body_of_folds.empty() ||
          std::any_of(g_.effects.begin(), g_.effects.end(), [&](ValueId id) { return is_full(g_[id]); });
  return t;
}

std::string VisitorWriter::results() {
  Bindings bindings = element_bindings();
  bindings.guards = true;
  Scope s = scope(bindings, options_.accurate);
  const ElementText t = fill_element(s, true);
  s.line("return result;");
  return fmt::format("    static constexpr bool kElements = {};\n", t.any) + structure("Result", t.members) +
         function(
             "Result element(float acc, const float* column, const float* tensor, const Uniform& u, const Row& "
             "row, const Where& at, int channel, bool exists, float* value)",
             s.lines()) +
         vectors() +
         function("float tiled(const Result& x, int i)", fmt::format("        return {};\n", chosen(t.tiled, "0.f"))) +
         function("void put(const Params& p, u64 offset, const Result& x, const Result& y)", t.puts) +
         function("void put(const Params& p, u64 offset, const Result& x)", t.single_puts);
}

// What an element adds to stored reductions; gives the text of those that it adds to at all
std::string VisitorWriter::fold_terms(Scope& s) {
  std::string any;
  std::size_t at = 0;
  for (const FoldList list : {FoldList::channel, FoldList::moments, FoldList::tile})
    for (const ValueId id : folds(list)) {
      const Node& x = g_[id];
      if (is_row(g_[x.inputs[0]])) {
        s.line(fmt::format("value[{}] = nothing_of({});", at++, fold_name(x.op)));
        continue;
      }
      s.compute(x.inputs);
      any = fmt::format("value[{}] = {};", at++, term(x.op, s.text(x.inputs[0], DType::f32)));
      s.line(any);
    }
  return any;
}

std::string VisitorWriter::row_ends() {
  const Bindings bindings = row_bindings();
  Scope s = scope(bindings, true);
  for (const plan::Output& o : e_.outputs) {
    if (o.path != StorePath::row) continue;
    const Store& store = g_.stores[o.store];
    const DType held = store.dtype == DType::i32 || store.dtype == DType::boolean ? store.dtype : DType::f32;
    s.compute(std::vector{store.value});
    s.line(fmt::format("store<{}>(p.{}, at.m, {});", element_name(store.dtype), names_.of_store(o.store),
                       s.text(store.value, held)));
  }
  call_effects(s, false, "");
  const auto tile = folds(FoldList::tile);
  for (std::size_t i = 0; i < tile.size(); ++i) {
    const Node& x = g_[tile[i]];
    if (!is_row(g_[x.inputs[0]])) continue;
    s.compute(x.inputs);
    s.line(fmt::format("value[{}] = {};", i, term(x.op, s.text(x.inputs[0], DType::f32))));
  }
  return fmt::format("    static constexpr bool kRowEnds = {};\n", !s.lines().empty()) +
         function("void close_row(const Params& p, const Uniform& u, const Where& at, const Row& row, float* value)",
                  s.lines());
}

// ---- All of it

std::string VisitorWriter::general_text() {
  const auto tiled = static_cast<std::size_t>(std::count_if(
      e_.outputs.begin(), e_.outputs.end(), [](const plan::Output& o) { return o.path == StorePath::after; }));
  const auto dtype_of = [&](std::size_t i) {
    return i < tiled ? element_name(g_.stores[e_.outputs[i].store].dtype) : "Bf16";
  };
  const std::string functions = columns("after", e_.reads.columns) + "\n" + tensors() + "\n" + rows() + "\n" +
                                results() + row_ends() + groups() + "\n" + domains() + returned();
  return fmt::format(
             "struct Visitor {{\n    using Output = {};\n    using Side = {};\n    static constexpr SideStore kSide = "
             "SideStore::{};\n    static constexpr int kTiled = {};\n    static constexpr bool kRaw = false;\n"
             "    struct Late {{}};\n",
             dtype_of(0), dtype_of(tiled > 1 ? 1 : 0), tiled > 1 ? "kAfter" : "kNone", tiled) +
         params() + uniform() + "\n" +
         fmt::format("    static constexpr int kColumnsBefore = 0, kColumnsAfter = {};\n", e_.reads.columns.size()) +
         functions + "};\n";
}

}  // namespace unisono::codegen
