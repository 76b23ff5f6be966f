// What a second pass asks of a visitor whose results are more than one or two of 16 bits: values of rows, the results
// of an element, where those go that are stored from registers.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "codegen/expression.hpp"
#include "codegen/pieces.hpp"
#include "codegen/visitor.hpp"

namespace unisono::codegen {

using StorePath = plan::Output::StorePath;

// The values of a row that elements behind the normalisation read
std::string VisitorWriter::rows_behind() {
  Bindings bindings;
  bindings.in_row = true;
  bindings.image = "at.image";
  Scope s = scope(bindings, true);
  s.compute(e_.reads.rows);
  std::string members, values;
  for (const ValueId id : e_.reads.rows) {
    members += fmt::format("        {} {};\n", type_of(g_[id].dtype), names_.of(id));
    values += (values.empty() ? "" : ", ") + s.text(id, g_[id].dtype);
  }
  s.line(fmt::format("return {{{}}};", values));
  return structure("Row", members) + function("Row row(const Params& p, const Uniform& u, const Where& at)", s.lines());
}

// Behind a normalisation over a row's channels, or ahead of it
bool VisitorWriter::row_results() const { return e_.results == plan::Results::any && e_.normalises_rows(); }

std::string VisitorWriter::rows_of_results() {
  return rows_behind() + fmt::format("    static constexpr bool kRowsBefore = {};\n", !e_.reads.rows.empty());
}

std::string VisitorWriter::second_pass() {
  Bindings bindings = elements_after(false);
  for (const ValueId id : e_.reads.rows) bindings.values[id] = "row." + names_.of(id);
  Scope s = scope(bindings, options_.accurate);
  std::vector<std::string> targets;
  int results = 0;
  for (std::size_t o = 0; o < e_.outputs.size(); ++o) {
    const plan::Output& output = e_.outputs[o];
    if (output.path != StorePath::after && output.path != StorePath::direct) continue;
    const ValueId value = stored_value(o);
    s.compute(std::vector{value});
    s.line(fmt::format("result[{}] = {};", results++, s.text(value, DType::f32)));
    const bool main = output.path == StorePath::after;
    if (main && !e_.wide_main()) continue;  // by TMA
    targets.push_back(fmt::format("ResultTarget<{}>{{{}}}", element_name(g_.stores[output.store].dtype),
                                  main ? "main" : "p." + names_.of_store(output.store)));
  }
  call_effects(s, true, "if (exists) ");
  const std::string folds = e_.folds().empty() ? "" : folds_of_passes(s);
  std::string choice;
  for (std::size_t i = 0; i < targets.size(); ++i)
    choice += fmt::format("        {}return {};\n",
                          i + 1 == targets.size() ? (i == 0 ? "" : "else ")
                                                  : fmt::format("{}if constexpr (i == {}) ", i == 0 ? "" : "else ", i),
                          targets[i]);
  return (row_results() ? "" : rows_behind()) +
         fmt::format("    static constexpr int kResults = {}, kDirect = {};\n", results, targets.size()) +
         function(fmt::format("void results(float {}, const float* column, const float* tensor, const Row& row, const "
                              "Uniform& u, bool exists, float* result{})",
                              e_.norm() ? "norm" : "waited", e_.folds().empty() ? "" : ", float* value"),
                  s.lines()) +
         (targets.empty() ? ""
                          : "    template <int i>\n" + function("auto direct(const Params& p, void* main)", choice)) +
         folds;
}

// Reductions that tiles exchange in place of a normalisation's moments: kernels/unisono/epilogue/exchanged.cuh
std::string VisitorWriter::exchanged() {
  const plan::Stage* stage = e_.exchanging();
  if (!stage) return "";
  const Bindings bindings = elements_before();
  Bindings known;
  known.channel = "channel";
  Scope ahead = scope(bindings, options_.accurate);
  std::vector<std::string> kinds;
  for (const ValueId id : stage->reductions()) {
    const Node& x = g_[id];
    ahead.compute(x.inputs);
    ahead.line(fmt::format("share[{}] = {};", kinds.size(), term(x.op, ahead.text(x.inputs[0], DType::f32))));
    const char* count = x.attr.domain.cols ? " / (rows * width)" : " / rows";
    known.values[id] = fmt::format("folded[{}]{}", kinds.size(), x.op == Op::mean ? count : "");
    kinds.emplace_back(fold_name(x.op));
  }
  add_fold_terms(ahead, false);
  ahead.compute(std::vector{*stage->waits});
  ahead.line(fmt::format("return {};", ahead.text(*stage->waits, DType::f32)));
  Scope columns = scope(known, true);
  for (std::size_t i = 0; i < e_.reads.columns.size(); ++i) {
    const ValueId id = e_.reads.columns[i];
    if (!late_[id]) continue;
    columns.compute(std::vector{id});
    columns.line(fmt::format("column[{} * stride] = as_column({});", i, columns.text(id, g_[id].dtype)));
  }
  return structure(
      "Exchanged",
      fmt::format("        static constexpr int kFolds = {};\n"
                  "        static UNISONO_DEVICE constexpr Fold fold(int i) {{ return {}; }}\n",
                  kinds.size(), chosen(kinds, "Fold::kSum")) +
          indented(function("float ahead(float acc, const float* column, const float* tensor, const "
                            "Uniform& u, float* share, float* value)",
                            ahead.lines()) +
                   function("void columns(const Params& p, const Uniform& u, int image, int channel, float "
                            "rows, float width, const float* folded, float* column, int stride)",
                            columns.lines())));
}

}  // namespace unisono::codegen
