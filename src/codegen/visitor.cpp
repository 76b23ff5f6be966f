#include "codegen/visitor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "codegen/expression.hpp"
#include "codegen/pieces.hpp"
#include "codegen/precise.hpp"
#include "ir/node_kinds.hpp"
#include "ir/products.hpp"
#include "plan/normalisation.hpp"

namespace unisono::codegen {

namespace {

std::vector<bool> late_of(const plan::Epilogue& e) {
  if (e.general()) return ir::depending(e.graph, ir::over_rows);
  std::vector<ValueId> statistics;
  for (const plan::Stage& s : e.stages) std::ranges::copy(s.reductions(), std::back_inserter(statistics));
  return plan::depends_on(e.graph, statistics);
}

}  // namespace

VisitorWriter::VisitorWriter(const plan::Epilogue& epilogue, const Options& options)
    : e_(epilogue), g_(epilogue.graph), options_(options), names_(epilogue.graph) {
  add_fields();
  late_ = late_of(e_);
  level_of_ = e_.levels_of_values();
  if (e_.general() || e_.results == plan::Results::any)
    precise_ = precise_elements(e_);
  else if (!options_.accurate)
    halving_ = Halving(e_);
}

// ---- Uniforms

std::string VisitorWriter::uniform() {
  const std::vector<std::string> pointers = captured();
  std::string members, names, parameter = uniforms_read_.empty() && pointers.empty() ? "" : " p";
  const std::vector<ValueId> values(uniforms_read_.begin(), uniforms_read_.end());
  for (const ValueId id : values) {
    members += fmt::format("        {} {};\n", type_of(g_[id].dtype), names_.of(id));
    names += (names.empty() ? "" : ", ") + names_.of(id);
  }
  for (const std::string& name : pointers) members += fmt::format("        void* {};\n", pointer_member(name));
  Scope s(g_, names_, true, [this](ValueId id) {
    const Op op = g_[id].op;
    return op == Op::operand || op == Op::extent ? load_scalar(id) : "";
  });
  if (!pointers.empty()) s.line("const Params& u = p;  // where functions find what they have captured");
  s.compute(values);
  std::string results;
  for (const ValueId id : values) results += (results.empty() ? "" : ", ") + s.text(id, g_[id].dtype);
  for (const std::string& name : pointers) results += (results.empty() ? "p." : ", p.") + pointer_member(name);
  s.line(fmt::format("return {{{}}};", results));
  return structure("Uniform", members) +
         function(fmt::format("Uniform uniform(const Params&{})", parameter), s.lines());
}

// ---- Columns

std::string VisitorWriter::columns(const char* name, const std::vector<ValueId>& values) {
  Bindings bindings;
  bindings.channel = "channel";
  Scope s = scope(bindings, true);
  const auto waits = [&](ValueId id) { return (e_.general() || e_.exchanging()) && late_[id]; };  // for reductions
  std::vector<ValueId> known;
  std::ranges::copy_if(values, std::back_inserter(known), [&](ValueId id) { return !waits(id); });
  s.compute(known);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (waits(values[i]))
      s.line(fmt::format("column[{}] = 0.f;", i));
    else
      s.line(fmt::format("column[{}] = as_column({}{});", i, halving_.halves(values[i]) ? "0.5f * " : "",
                         s.text(values[i], g_[values[i]].dtype)));
  return function(
      fmt::format("void columns_{}(const Params& p, const Uniform& u, int image, int channel, float* column)", name),
      s.lines());
}

// ---- Elements

std::string VisitorWriter::raw_as_input() const { return converted("raw", DType::f32, g_[e_.norm()->input].dtype); }

// The second of a dual product stands behind the operands [m,n] (epilogue/visitor.cuh)
std::string VisitorWriter::accumulator(Op op, const std::vector<ValueId>& tensors) {
  return op == Op::acc ? "acc" : fmt::format("tensor[{}]", tensors.size());
}

VisitorWriter::Bindings VisitorWriter::elements_before() const {
  Bindings bindings;
  if (row_results())
    for (const ValueId id : e_.reads.rows) bindings.values[id] = "row." + names_.of(id);
  bindings.columns = &e_.ahead_of_stages().columns;
  bindings.tensors = &e_.ahead_of_stages().tensors;
  for (ValueId id = 0; id < g_.nodes.size(); ++id)
    if (ir::is_accumulator(g_[id].op)) bindings.values[id] = accumulator(g_[id].op, e_.ahead_of_stages().tensors);
  return bindings;
}

VisitorWriter::Bindings VisitorWriter::elements_after(bool with_raw) const {
  Bindings bindings;
  bindings.columns = &e_.reads.columns;
  bindings.tensors = &e_.reads.tensors;
  if (!e_.behind()) {
    for (ValueId id = 0; id < g_.nodes.size(); ++id)
      if (ir::is_accumulator(g_[id].op)) bindings.values[id] = accumulator(g_[id].op, e_.reads.tensors);
    return bindings;
  }
  if (with_raw && e_.uses_raw) bindings.values[e_.norm()->input] = raw_as_input();
  bindings.values[*e_.behind()] = e_.norm() ? "norm" : "waited";
  return bindings;
}

std::string VisitorWriter::element(const char* head, const Bindings& bindings, ValueId value) {
  Scope s = scope(bindings, options_.accurate);
  s.compute(std::vector{value});
  s.line(fmt::format("return {};", s.text(value, DType::f32)));
  const bool of_row = row_results() && !e_.reads.rows.empty();
  return function(fmt::format("float {}const float* column, const float* tensor, {}const Uniform& u)", head,
                              of_row ? "const Row& row, " : ""),
                  s.lines());
}

std::string VisitorWriter::before() {
  if (e_.exchanging()) return "";  // exchanged() has it
  if (!e_.norm())
    return function("float before(float acc, const float*, const float*, const Uniform&)", "        return acc;\n");
  return element("before(float acc, ", elements_before(), e_.norm()->input);
}

// What is left to compute of a store: packing rounds to its dtype, which a cast to the same need not do first
ValueId VisitorWriter::stored_value(std::size_t output) const {
  const Store& s = g_.stores[e_.outputs.at(output).store];
  const Node& x = g_[s.value];
  const bool is_raw =
      e_.norm() && s.value == e_.norm()->input && e_.outputs[output].path != plan::Output::StorePath::before;
  const bool rounds_alone = !is_raw && x.op == Op::cast && x.dtype == s.dtype && g_[x.inputs[0]].dtype == DType::f32;
  return rounds_alone ? x.inputs[0] : s.value;
}

std::string VisitorWriter::after() {
  return element(e_.norm() ? "after(float norm, float raw, " : "after(float acc, float, ", elements_after(true),
                 stored_value(0));
}

std::string VisitorWriter::side() {
  if (e_.side_before()) return element("side(float acc, ", elements_before(), stored_value(1));
  if (e_.side_after())
    return element(e_.norm() ? "side(float norm, " : "side(float acc, ", elements_after(false), stored_value(1));
  return function("float side(float, const float*, const float*, const Uniform&)", "        return 0.f;\n");
}

// ---- All of it

std::string VisitorWriter::text(std::string_view name) {
  if (e_.general()) return general_text();
  const auto dtype_of = [&](std::size_t i) { return element_name(g_.stores[e_.outputs.at(i).store].dtype); };
  const bool two = e_.side_before() || e_.side_after();
  const std::string functions = columns("before", e_.ahead_of_stages().columns) + columns("after", e_.reads.columns) +
                                "\n" + tensors() + (row_results() ? rows_of_results() : "") + before() +
                                (e_.results == plan::Results::any ? second_pass() : after()) + side() + "\n" +
                                fmt::format("    static constexpr bool kRaw = {};\n", e_.uses_raw) + row_statistic() +
                                late_and_affine() + statistics() + exchanged();
  return fmt::format(
             "struct {} {{\n    using Output = {};\n    using Side = {};\n    static constexpr SideStore kSide = "
             "SideStore::{};\n",
             name, dtype_of(0), dtype_of(two ? 1 : 0),
             e_.side_before() ? "kBefore"
             : two            ? "kAfter"
                              : "kNone") +
         params() + uniform() + "\n" +
         fmt::format("    static constexpr int kColumnsBefore = {}, kColumnsAfter = {};\n",
                     e_.ahead_of_stages().columns.size(), e_.reads.columns.size()) +
         functions + "};\n";
}

}  // namespace unisono::codegen
