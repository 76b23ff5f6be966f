#pragma once
/// Intervals of integers (bytes of memory, steps of a plan), of which some are present, and which of those meet
/// another.

#include <cstddef>
#include <span>
#include <vector>

namespace unisono::network {

/// From `begin` to before `end`.
struct IndexRange {
  std::size_t begin = 0, end = 0;
};

/// All intervals are known ahead; each is absent until it is inserted. A segment tree over their beginnings that knows
/// the last end below each of its nodes: whatever is asked takes a time that grows as the logarithm of their number,
/// and with what is found.
class IntervalIndex {
 public:
  explicit IntervalIndex(std::span<const IndexRange> all);

  void insert(std::size_t i) { set_end(i, ranges_[i].end); }
  void erase(std::size_t i) { set_end(i, 0); }
  /// The i-th from now on; `to` lies within it.
  void trim(std::size_t i, IndexRange to);
  const IndexRange& operator[](std::size_t i) const { return ranges_[i]; }

  /// Those present that share an integer with `x`, by their beginnings; stops when `most` are found.
  void find(IndexRange x, std::vector<std::size_t>& found, std::size_t most = static_cast<std::size_t>(-1)) const;

 private:
  void set_end(std::size_t i, std::size_t end);

  std::vector<IndexRange> ranges_;
  std::vector<std::size_t> order_;   // by place in the order of their first beginnings
  std::vector<std::size_t> place_;   // by interval
  std::vector<std::size_t> begins_;  // by place
  std::size_t leaves_ = 1;
  std::vector<std::size_t> ends_;  // by node, 1 the root: the last end of those present below it; 0: there is none
};

}  // namespace unisono::network
