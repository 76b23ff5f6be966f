#include "unisono/visitor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/codegen.hpp"
#include "ir/names.hpp"
#include "lower/lower.hpp"
#include "unisono/error.hpp"

namespace unisono {

namespace {

// Namespaces of the device headers, and what stands in a visitor
void check_name(const std::string& name) {
  static constexpr std::array<std::string_view, 4> taken{"math", "accurate", "plain", "Visitor"};
  ir::check_identifier(name, "the visitor's");
  if (std::find(taken.begin(), taken.end(), name) != taken.end())
    throw UserError(
        fmt::format("'{}' cannot be the name of a visitor: the device headers have it; choose another", name));
}

}  // namespace

std::string visitor_source(const Contraction& contraction, const Graph& graph, const VisitorOptions& options) {
  check_name(options.name);
  CompileOptions compile;
  compile.device = Device::cuda;
  compile.accurate = options.accurate, compile.storage = options.storage;
  compile.device_scalars = options.device_scalars;
  if (product_count(contraction) != 1)
    throw Unsupported(
        fmt::format("{}: a visitor of one's own kernel reads one accumulator; compute acc1 by a contraction of "
                    "its own and read it as an operand [m,n]",
                    to_string(contraction)));
  for (const Store& s : graph.stores)
    if (s.form != StoreForm::whole)
      throw Unsupported(
          fmt::format("store {}: a visitor does not make {}; store the whole value", s.name, to_string(s.form)));
  const lower::Problem problem = lower::analyse(contraction, graph, compile).value();
  return codegen::visitor_header(
             problem.epilogue(), options.name,
             {.accurate = options.accurate, .storage = options.storage, .scalar_pointers = options.device_scalars})
      .value()
      .source;
}

}  // namespace unisono
