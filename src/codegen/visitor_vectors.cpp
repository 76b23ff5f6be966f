// Elements several at a time, where functions that they call have vector forms: kernels/unisono/epilogue/vectors.cuh.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "codegen/expression.hpp"
#include "codegen/pieces.hpp"
#include "codegen/visitor.hpp"
#include "ir/function_forms.hpp"

namespace unisono::codegen {

namespace {

// Lines for each of the elements
std::string each_element(const std::string& lines) {
  return "        for_elements<kWidth>(accs, columns, tensors, rows, first, count, [&](int e, float acc, const float* "
         "column, "
         "const float* tensor, const Row& row, int channel, bool exists) {\n" +
         lines + "        });\n";
}

// No name of the graph's has two underscores in a row
std::string name_of_result(ValueId call) { return fmt::format("call__{}", call); }
std::string name_of_input(ValueId call, std::size_t i) { return fmt::format("call__{}_{}", call, i); }

}  // namespace

// Inputs of all elements, then the calls: vectors of them where there is a form, and where a form is narrower or there
// is none, single elements. From then on the results are known.
std::string VisitorWriter::vector_call(ValueId id, Bindings& bindings) {
  const Node& x = g_[id];
  const UserFunction& f = *g_.functions.at(x.attr.name);
  Scope s = scope(bindings, options_.accurate);
  s.compute(x.inputs);
  std::string arrays;
  std::vector<std::string> arguments;
  for (std::size_t i = 0; i < x.inputs.size(); ++i) {
    const ParameterType type = f.parameter(i);
    const bool number = type == ParameterType::float32;
    const std::string name = name_of_input(id, i), of_first = name + "[part.kFirst]";
    arrays += fmt::format("        {} {}[kWidth];\n", number ? "float" : "int", name);
    s.line(fmt::format("{}[e] = {};", name, s.text(x.inputs[i], number ? DType::f32 : DType::i32)));
    arguments.push_back(type == ParameterType::int64              ? fmt::format("static_cast<long long>({})", of_first)
                        : number && static_cast<int>(i) < f.arity ? fmt::format("vector_of({}, part)", name)
                                                                  : of_first);
  }
  const std::string called = call_text(f, arguments);
  const bool value = !is_effect(id);
  if (value) arrays += fmt::format("        float {}[kWidth] = {{}};\n", name_of_result(id));
  const std::string call = value ? fmt::format("set_vector({}, part, {})", name_of_result(id), called) : called;
  if (value) bindings.values[id] = name_of_result(id) + "[e]";
  return arrays + each_element(s.lines()) +
         fmt::format("        in_vectors<{}, kWidth>(offset, count, [&](auto part) {{ {}; }});\n",
                     ir::call_forms(g_, id), call);
}

std::string VisitorWriter::vectors() {
  const ir::VectorForms forms = ir::all_call_forms(g_);
  if (forms == 0) return {};
  Bindings bindings = element_bindings();
  bindings.guards = true;
  std::string body;
  for (ValueId id = 0; id < g_.nodes.size(); ++id)
    if (!is_effect(id) && ir::call_forms(g_, id) != 0) body += vector_call(id, bindings);
  for (const ValueId id : g_.effects) {  // in their order
    if (g_[id].axes == axes::mn) body += vector_call(id, bindings);
  }
  Scope s = scope(bindings, options_.accurate);
  bool folds_any = false;
  for (const FoldList list : {FoldList::channel, FoldList::moments, FoldList::tile}) folds_any |= !folds(list).empty();
  if (folds_any) s.line("float* const value = values[e];");
  fill_element(s, false);
  s.line("results[e] = result;");
  body += each_element(s.lines());
  return fmt::format("    static constexpr int kForms = {};\n    template <int kWidth, int kValues>\n", forms) +
         function(
             "void elements(const float (&accs)[kWidth], const float* const (&columns)[kWidth], const float* const "
             "(&tensors)[kWidth], const Uniform& u, const Row (&rows)[kWidth], const Where& at, int first, u32 offset, "
             "int "
             "count, Result (&results)[kWidth], float (&values)[kWidth][kValues])",
             body);
}

}  // namespace unisono::codegen
