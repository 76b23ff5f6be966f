#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "property/check.hpp"
#include "reference/reference.hpp"
#include "runtime/common/names.hpp"
#include "runtime/cpu/vector/unit.hpp"
#include "unisono/error.hpp"
#include "unisono/executable.hpp"
#include "unisono/text.hpp"

namespace unisono::test {

namespace {

std::optional<std::string> difference(const RandomCase& c, Counts& counts) {
  c.effects->calls = 0;
  // the backend documents a wider error of its functions than the reference's default
  const auto expected = reference::run(c.contraction, c.graph, c.arguments, {.function_ulps = cpu::function_ulps});
  const std::uint64_t calls = c.effects->calls.exchange(0);
  CompileOptions options;
  options.storage = c.storage;
  options.threads = 1;
  Arguments arguments = c.arguments;  // a graph that was cut down while shrinking has less
  std::erase_if(arguments.outputs, [&](const auto& output) {
    return std::none_of(c.graph.stores.begin(), c.graph.stores.end(),
                        [&](const Store& s) { return s.name == output.first; });
  });
  const auto operands = runtime::operand_names(c.graph);
  const auto is_unknown = [&](const auto& entry) { return std::ranges::find(operands, entry.first) == operands.end(); };
  std::erase_if(arguments.operands, is_unknown), std::erase_if(arguments.scalars, is_unknown);
  std::erase_if(options.storage, is_unknown);
  compile(c.contraction, c.graph, options).run(arguments);
  if (c.effects->calls != calls)
    return fmt::format("{} effects were called; expected {}", c.effects->calls.load(), calls);
  for (const auto& [name, values] : expected) {
    const Store& store = *std::ranges::find(c.graph.stores, name, &Store::name);
    const auto found = reference::compare(values, store, c.contraction, c.arguments.outputs.at(name));
    counts.elements += found.elements;
    counts.without_claim += found.unclaimed;
    if (std::isfinite(found.worst)) counts.worst = std::max(counts.worst, found.worst);
    if (found.ok()) continue;
    if (overflows_inside(
            c, reference::contract(c.contraction, c.arguments.a(c.contraction), c.arguments.b(c.contraction)))) {
      ++counts.overflowed;
      return {};
    }
    return fmt::format("{}: {} of {} elements are outside; the worst, {}, is {} instead of {} ({} times its tolerance)",
                       name, found.outside, found.elements, found.worst_index, found.worst_actual, found.worst_expected,
                       found.worst);
  }
  return {};
}

}  // namespace

std::optional<Failure> check_cpu(RandomCase& c, Counts& counts) {
  poison_outputs(c);
  try {
    if (const auto wrong = difference(c, counts)) return Failure{"CPU: " + *wrong, print(c.graph), {}};
  } catch (const Unsupported&) {
    ++counts.refused;
  } catch (const std::exception& e) {
    return Failure{fmt::format("CPU: threw {}", e.what()), print(c.graph), {}};
  }
  return {};
}

}  // namespace unisono::test
