#pragma once
/// What elements are computed from.

#include <optional>
#include <set>
#include <vector>

#include "plan/epilogue.hpp"

namespace unisono::plan {

/// The values that elements are computed from, down to values of channels, images and rows, operands [m,n], the
/// accumulator, and whatever a normalisation gives, or what waits for other statistics.
struct Reads {
  std::set<ValueId> columns, rows, tensors;
  bool accumulator = false, result = false, raw = false;

  void add(const Reads& more);
  ElementReads listed() const;

  /// The values of channels, images and rows.
  std::set<ValueId> vectors() const {
    std::set<ValueId> all = columns;
    all.insert(rows.begin(), rows.end());
    return all;
  }
};

class Reader {
 public:
  /// `statistical`: for each value, whether it is computed from the statistics that elements wait for.
  Reader(const Epilogue& e, const std::vector<bool>& statistical)
      : g_(e.graph), norm_(e.norm()), behind_(e.behind()), statistical_(statistical) {}

  /// Behind the normalisation y and x are given, behind other statistics what waited; ahead only the accumulator is.
  Reads read(ValueId root, bool behind) const;

 private:
  bool leaf(ValueId id, bool behind, Reads& reads) const;

  const Graph& g_;
  const passes::Affine* norm_;
  std::optional<ValueId> behind_;
  const std::vector<bool>& statistical_;
};

}  // namespace unisono::plan
