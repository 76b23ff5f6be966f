#pragma once
/// What must hold for every graph: passes keep its meaning, and a backend computes it.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "reference/reference.hpp"
#include "support/random_graph.hpp"

namespace unisono::test {

struct Failure {
  std::string what;    ///< which pass or backend, which store, which element, and the two values
  std::string before;  ///< the graph in the text form
  std::string after;   ///< the graph after the pass, or empty
};

/// What a run of many graphs has seen.
struct Counts {
  std::int64_t graphs = 0;
  std::int64_t changed = 0;         ///< single passes and pipelines that changed their graph
  std::int64_t elements = 0;        ///< output elements compared
  std::int64_t exact_elements = 0;  ///< of those, bit for bit
  std::int64_t without_claim = 0;   ///< elements for which the reference gives no bound
  std::int64_t overflowed = 0;      ///< comparisons given up because the original graph overflows inside
  std::int64_t refused = 0;         ///< graphs that the backend does not support
  std::set<std::string> rows;       ///< names of the rows that fired by themselves
  double worst = 0;                 ///< largest error of the backend in units of its tolerance
};

/// Every pass alone and the whole pipeline: legal, of the same meaning, without effect the second time; and the
/// partition of the result is right.
std::optional<Failure> check_passes(RandomCase& c, Counts& counts);

/// One row of one table by itself, chosen by the seed: its pattern is built over random values of the graph.
std::optional<Failure> check_row(RandomCase& c, Counts& counts);

/// How many rows check_row() chooses from, by name.
std::size_t row_count();

/// Nothing if `after` means the same as the graph of the case: bit for bit if `exact`, else within the reference's
/// bound.
std::optional<Failure> compare_meaning(RandomCase& c, std::string_view name, const Graph& after, bool exact,
                                       Counts& counts);

/// True if a value inside the graph of the case is infinite or NaN somewhere. A pass that reassociates may then give
/// another result: that of the stable form, where the one written down overflows.
bool overflows_inside(const RandomCase& c, const reference::Values& acc);

/// The CPU backend against the reference on the graph as it was drawn.
std::optional<Failure> check_cpu(RandomCase& c, Counts& counts);

/// Removes stores and effects as long as `check` still fails.
std::optional<Failure> shrink(RandomCase& c, std::optional<Failure> (*check)(RandomCase&, Counts&), Failure failure);

/// Broken rules of the partition of a graph that has been through the pipeline, or nothing.
std::optional<std::string> broken_partition(const Graph& graph, bool whole_rows);

}  // namespace unisono::test
