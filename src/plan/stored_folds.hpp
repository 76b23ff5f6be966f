#pragma once
/// Reductions over rows whose results, or functions of them, are stored: which there are, and what they run over.

#include <optional>
#include <set>
#include <vector>

#include "plan/epilogue.hpp"
#include "plan/refusal.hpp"

namespace unisono::plan {

class StoredFolds {
 public:
  /// `late`: for each value, whether it is computed from a reduction over rows. Fills in `stored`, the stage that
  /// nothing reads.
  StoredFolds(const Graph& graph, const std::vector<bool>& late, Stage& stored)
      : g_(graph), late_(late), stored_(stored) {}

  /// A store of a function of reductions that share what they run over, with the axes of their results.
  std::optional<Refusal> place(std::size_t store);
  /// Puts a reduction that place() found among its domain's.
  void add(ValueId reduction);

  /// The reductions that the stores read.
  const std::set<ValueId>& found() const { return found_; }

 private:
  Statistics& domain_of(ValueId reduction);

  const Graph& g_;
  const std::vector<bool>& late_;
  Stage& stored_;
  std::set<ValueId> found_;
};

}  // namespace unisono::plan
