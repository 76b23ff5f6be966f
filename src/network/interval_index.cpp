#include "network/interval_index.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace unisono::network {

IntervalIndex::IntervalIndex(std::span<const IndexRange> all)
    : ranges_(all.begin(), all.end()), order_(all.size()), place_(all.size()), leaves_(std::bit_ceil(all.size() + 1)) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::size_t x, std::size_t y) { return ranges_[x].begin < ranges_[y].begin; });
  for (std::size_t p = 0; p < order_.size(); ++p) {
    place_[order_[p]] = p;
    begins_.push_back(ranges_[order_[p]].begin);
  }
  ends_.assign(2 * leaves_, 0);
}

void IntervalIndex::set_end(std::size_t i, std::size_t end) {
  std::size_t node = leaves_ + place_[i];
  ends_[node] = end;
  while (node > 1) {
    node /= 2;
    ends_[node] = std::max(ends_[2 * node], ends_[2 * node + 1]);
  }
}

void IntervalIndex::trim(std::size_t i, IndexRange to) {
  ranges_[i] = to;
  set_end(i, to.end);
}

void IntervalIndex::find(IndexRange x, std::vector<std::size_t>& found, std::size_t most) const {
  const auto limit =  // places from here on begin too late
      static_cast<std::size_t>(std::lower_bound(begins_.begin(), begins_.end(), x.end) - begins_.begin());
  // From node to node in the order of the places: down where something may be found, else on to the next
  std::size_t node = 1, width = leaves_;  // leaves below the node
  while (node != 0) {
    const std::size_t first = node * width - leaves_;
    if (first >= limit) return;
    if (ends_[node] > x.begin && width > 1) {
      node *= 2, width /= 2;
      continue;
    }
    if (ends_[node] > x.begin) {
      const std::size_t i = order_[first];
      if (ranges_[i].begin < x.end) {
        found.push_back(i);
        if (found.size() >= most) return;
      }
    }
    while (node % 2 == 1) node /= 2, width *= 2;  // 0 above the root
    if (node != 0) ++node;
  }
}

}  // namespace unisono::network
