// What the visitor knows of a normalisation: factor and shift of a channel, stores of statistics.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/expression.hpp"
#include "codegen/pieces.hpp"
#include "codegen/visitor.hpp"
#include "plan/visitor_shape.hpp"

namespace unisono::codegen {

// A row's statistic, unless it is its moments
std::string VisitorWriter::row_statistic() const {
  if (!e_.norm()) return "";
  if (e_.norm()->mean_square) return "    static constexpr RowStatistic kRowStatistic = RowStatistic::kSquares;\n";
  if (!e_.norm()->sum) return "";
  return "    static constexpr RowStatistic kRowStatistic = RowStatistic::kSoftmax;\n" +
         function("float exponential(float x)",
                  fmt::format("        return math::{}exp(x);\n",
                              options_.accurate || e_.results == plan::Results::any ? "accurate::" : ""));
}

std::string VisitorWriter::late_and_affine() {
  if (!e_.norm())
    return structure("Late", "") +
           function("Late late(const Params&, const Uniform&, int, int)", "        return {};\n") +
           function("float2 affine(const Late&, const Uniform&, float, float)", "        return {1.f, 0.f};\n");
  const std::vector<ValueId> values = plan::late_values(e_);
  Bindings loads, uses;
  loads.channel = "channel";
  std::string members, results;
  Scope first = scope(loads, true);
  first.compute(values);
  for (const ValueId id : values) {
    const DType held = g_[id].dtype == DType::boolean ? DType::i32 : g_[id].dtype;  // members of four bytes
    members += fmt::format("        {} {};\n", type_of(held), names_.of(id));
    results += (results.empty() ? "" : ", ") + first.text(id, held);
    uses.values[id] = converted("late." + names_.of(id), held, g_[id].dtype);
  }
  first.line(fmt::format("return {{{}}};", results));
  if (e_.norm()->mean) uses.values[*e_.norm()->mean] = "mean";
  for (const auto& id : {e_.norm()->variance, e_.norm()->mean_square})
    if (id) uses.values[*id] = "variance";
  Scope second = scope(uses, true);
  std::string factor = "1.f", shift = "0.f";
  for (const auto& [id, text] : {std::pair{e_.norm()->factor, &factor}, {e_.norm()->shift, &shift}}) {
    if (!id) continue;
    second.compute(std::vector{*id});
    *text = second.text(*id, DType::f32);
  }
  const bool halved = halving_.halves(e_.norm()->result);
  const char* note = halved ? "  // of y/2" : "";
  const char* half = halved ? "0.5f * " : "";
  second.line(fmt::format("return {{{}{}, {}{}}};{}", half, factor, half, shift, note));
  return structure("Late", members) +
         function("Late late(const Params& p, const Uniform& u, int image, int channel)", first.lines()) +
         function("float2 affine(const Late& late, const Uniform& u, float mean, float variance)", second.lines());
}

std::string VisitorWriter::statistics() {
  Bindings bindings;
  bindings.channel = "group";
  if (e_.norm() && e_.norm()->mean) bindings.values[*e_.norm()->mean] = "mean";
  if (e_.norm() && e_.norm()->variance) bindings.values[*e_.norm()->variance] = "variance";
  Scope s = scope(bindings, true);
  for (const plan::Output& o : e_.outputs) {
    if (o.path != plan::Output::StorePath::statistics) continue;
    const Store& store = g_.stores[o.store];
    const Axes& a = g_[store.value].axes;
    bindings.groups = a.groups;
    s.compute(std::vector{store.value});
    const std::string groups =
        e_.normalised()->group_channels == 1 ? "p.channels" : fmt::format("{}", std::max(1, a.groups));
    s.line(fmt::format("store<{}>(p.{}, image * {} + group, {});", element_name(store.dtype), names_.of_store(o.store),
                       groups, s.text(store.value, DType::f32)));
  }
  const bool any = !s.lines().empty();
  return fmt::format("    static constexpr bool kStatistics = {};\n", any) +
         function(
             "void statistics(const Params& p, const Uniform& u, int image, int group, float mean, float variance)",
             s.lines());
}

}  // namespace unisono::codegen
