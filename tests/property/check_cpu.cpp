#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "coda/error.hpp"
#include "coda/executable.hpp"
#include "coda/text.hpp"
#include "property/check.hpp"
#include "reference/reference.hpp"

namespace coda::test {

namespace {

std::optional<std::string> difference(const RandomCase& c, Counts& counts) {
  c.effects->calls = 0;
  const auto expected = reference::run(c.contraction, c.graph, c.arguments);
  const std::uint64_t calls = c.effects->calls.exchange(0);
  CompileOptions options;
  options.storage = c.storage;
  options.threads = 1;
  compile(c.contraction, c.graph, options).run(c.arguments);
  if (c.effects->calls != calls)
    return fmt::format("{} effects were called; expected {}", c.effects->calls.load(), calls);
  for (const auto& [name, values] : expected) {
    const auto found = reference::compare(values, c.contraction, c.arguments.outputs.at(name));
    counts.elements += found.elements;
    counts.without_claim += found.unclaimed;
    if (std::isfinite(found.worst)) counts.worst = std::max(counts.worst, found.worst);
    if (!found.ok())
      return fmt::format(
          "{}: {} of {} elements are outside; the worst, {}, is {} instead of {} ({} times its tolerance)", name,
          found.outside, found.elements, found.worst_index, found.worst_actual, found.worst_expected, found.worst);
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

}  // namespace coda::test
