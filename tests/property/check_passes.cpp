#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "passes/passes.hpp"
#include "property/check.hpp"
#include "reference/reference.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::test {

namespace {

struct Outcome {
  std::map<std::string, reference::Values> stores;
  std::uint64_t calls = 0, hashes = 0;
};

Outcome evaluate(const RandomCase& c, const Graph& graph, const reference::Values& acc) {
  Outcome o;
  c.effects->calls = c.effects->sum_of_hashes = 0;
  o.stores = reference::evaluate(graph, c.contraction, acc, c.arguments);
  o.calls = c.effects->calls;
  o.hashes = c.effects->sum_of_hashes;
  return o;
}

bool same_bits(double x, double y) {
  return (std::isnan(x) && std::isnan(y)) || std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
}

// Both values come from float64 arithmetic, so the bounds, which are those of f32 arithmetic, leave ample room; where
// they are zero the last bits of float64 may still differ.
bool within_bounds(double x, double y, double bound) {
  if (same_bits(x, y) || x == y) return true;
  return std::abs(x - y) <= bound + 0x1p-48 * std::abs(x);
}

// Nothing if `after` agrees with `before`; bit for bit if `exact`
std::optional<std::string> difference(const Outcome& before, const Outcome& after, bool exact, Counts& counts) {
  if (before.calls != after.calls) return fmt::format("{} effects became {}", before.calls, after.calls);
  if (exact && before.hashes != after.hashes) return "effects were given other arguments";
  for (const auto& [name, x] : before.stores) {
    const auto& y = after.stores.at(name);
    if (!(x.axes == y.axes))
      return fmt::format("{} has axes {} instead of {}", name, to_string(y.axes), to_string(x.axes));
    for (std::size_t i = 0; i < x.value.size(); ++i) {
      ++counts.elements;
      if (exact) {
        ++counts.exact_elements;
        if (!same_bits(x.value[i], y.value[i]))
          return fmt::format("{}[{}] is {} instead of {}; the pass is exact", name, i, y.value[i], x.value[i]);
        continue;
      }
      const bool claimed = std::isfinite(x.bound[i]) && std::isfinite(x.value[i]);
      if (!claimed) {
        ++counts.without_claim;
      } else if (!within_bounds(x.value[i], y.value[i], x.bound[i] + (std::isfinite(y.bound[i]) ? y.bound[i] : 0))) {
        return fmt::format("{}[{}] is {} instead of {} +- {} (after: +- {})", name, i, y.value[i], x.value[i],
                           x.bound[i], y.bound[i]);
      }
    }
  }
  return {};
}

}  // namespace

bool overflows_inside(const RandomCase& c, const reference::Values& acc) {
  Graph all = c.graph;
  all.stores.clear();
  all.effects.clear();
  for (ValueId id = 0; id < all.nodes.size(); ++id) {
    const Node& x = all[id];
    const bool nothing = x.op == Op::call && !all.functions.at(x.attr.name)->returns_value;
    if (!nothing) all.stores.push_back({id, DType::f32, fmt::format("v{}", id)});
  }
  for (const auto& [name, values] : reference::evaluate(all, c.contraction, acc, c.arguments))
    for (const double v : values.value)
      if (!std::isfinite(v)) return true;
  return false;
}

namespace {

struct Checker {
  RandomCase& c;
  Counts& counts;
  reference::Values acc;
  Outcome before;

  Failure failure(const std::string& what, const Graph& after) const { return {what, print(c.graph), print(after)}; }

  std::optional<Failure> meaning(std::string_view name, const Graph& after, bool exact) {
    if (structurally_equal(c.graph, after)) return {};
    ++counts.changed;
    const auto wrong = difference(before, evaluate(c, after, acc), exact, counts);
    if (!wrong) return {};
    if (!exact && overflows_inside(c, acc)) {
      ++counts.overflowed;
      return {};
    }
    return failure(fmt::format("{}: {}", name, *wrong), after);
  }

  std::optional<Failure> single(const passes::Pass& pass) {
    const Graph after = pass.run(c.graph);
    verify(after);
    if (const Graph again = pass.run(after); !structurally_equal(after, again))
      return Failure{fmt::format("{} is not idempotent", pass.name), print(after), print(again)};
    return meaning(pass.name, after, pass.exact);
  }

  std::optional<Failure> pipeline() {
    bool exact = true;
    const Graph after = passes::run_pipeline(c.graph, [&](const passes::Pass& pass, const Graph& x, const Graph& y) {
      exact = exact && (pass.exact || structurally_equal(x, y));
      verify(y);
    });
    if (auto f = meaning("the pipeline", after, exact)) return f;
    for (const bool whole_rows : {true, false})
      if (const auto broken = broken_partition(after, whole_rows))
        return failure(fmt::format("partition (whole_rows={}): {}", whole_rows, *broken), after);
    return {};
  }
};

}  // namespace

std::optional<Failure> compare_meaning(RandomCase& c, std::string_view name, const Graph& after, bool exact,
                                       Counts& counts) {
  Checker check{
      c, counts, reference::contract(c.contraction, c.arguments.a(c.contraction), c.arguments.b(c.contraction)), {}};
  check.before = evaluate(c, c.graph, check.acc);
  return check.meaning(name, after, exact);
}

std::optional<Failure> check_passes(RandomCase& c, Counts& counts) {
  Checker check{
      c, counts, reference::contract(c.contraction, c.arguments.a(c.contraction), c.arguments.b(c.contraction)), {}};
  check.before = evaluate(c, c.graph, check.acc);
  std::string_view done;
  for (const passes::Pass& pass : passes::pipeline()) {
    if (done.find(pass.name) != done.npos) continue;  // stands twice in the pipeline
    try {
      if (auto f = check.single(pass)) return f;
    } catch (const std::exception& e) {
      return Failure{fmt::format("{} threw: {}", pass.name, e.what()), print(c.graph), {}};
    }
  }
  try {
    return check.pipeline();
  } catch (const std::exception& e) {
    return Failure{fmt::format("the pipeline threw: {}", e.what()), print(c.graph), {}};
  }
}

// A pooled store needs the store of its value
static bool is_legal(const Graph& graph) {
  try {
    verify(graph);
  } catch (const UserError&) {
    return false;
  }
  return !graph.stores.empty() || !graph.effects.empty();
}

std::optional<Failure> shrink(RandomCase& c, std::optional<Failure> (*check)(RandomCase&, Counts&), Failure failure) {
  const auto try_without = [&](auto& list, std::size_t i) {
    const Graph whole = c.graph;
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
    Counts unused;
    if (is_legal(c.graph))
      if (auto smaller = check(c, unused)) {
        failure = *std::move(smaller);
        return true;
      }
    c.graph = whole;
    return false;
  };
  for (std::size_t i = c.graph.stores.size(); i-- > 0;) try_without(c.graph.stores, i);
  return failure;
}

}  // namespace unisono::test
