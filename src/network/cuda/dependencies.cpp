#include "network/cuda/dependencies.hpp"

#include <algorithm>

namespace coda::network::gpu {

namespace {

// Columns of rows that lie equally far apart: bytes with different remainders by the pitch are different bytes
bool are_columns_apart(const Interval& a, const Interval& b) {
  const std::size_t pitch = std::max(a.rows > 1 ? a.pitch : 0, b.rows > 1 ? b.pitch : 0);
  const auto fits = [&](const Interval& x) { return x.width <= pitch && (x.rows == 1 || x.pitch == pitch); };
  if (pitch == 0 || !fits(a) || !fits(b)) return false;
  const std::size_t from = (b.begin % pitch + pitch - a.begin % pitch) % pitch;  // b's first column, counted from a's
  return from >= a.width && from + b.width <= pitch;
}

bool meet(std::span<const Interval> a, std::span<const Interval> b) {
  return std::any_of(a.begin(), a.end(), [&](const Interval& x) {
    return std::any_of(b.begin(), b.end(), [&](const Interval& y) { return overlap(x, y); });
  });
}

bool touch(const Uses& first, const Uses& second) {
  return meet(first.writes, second.reads) || meet(first.reads, second.writes) || meet(first.writes, second.writes);
}

// More than half of the threads that the GPU holds, or nearly all of its multiprocessors
bool fills(const Uses& u, const Capacity& c) {
  if (u.exclusive) return 8 * u.blocks > 7 * c.multiprocessors;
  return 2 * u.blocks * u.threads > c.multiprocessors * c.threads;
}

}  // namespace

bool overlap(const Interval& a, const Interval& b) {
  if (a.space != b.space || a.width == 0 || b.width == 0 || a.rows == 0 || b.rows == 0) return false;
  if (a.end() <= b.begin || b.end() <= a.begin) return false;
  return !are_columns_apart(a, b);
}

bool worthwhile(const Uses& a, const Uses& b, const Capacity& c) {
  if (a.exclusive && b.exclusive) return a.blocks + b.blocks <= c.multiprocessors;
  if (a.exclusive || b.exclusive) return !fills(a.exclusive ? a : b, c);
  return !(fills(a, c) && fills(b, c));
}

Order dependencies(std::span<const Uses> launches, const Capacity& capacity) {
  Order after(launches.size());
  std::vector<std::vector<bool>> ahead(launches.size());  // all that a launch waits for, directly or not
  for (std::size_t i = 0; i < launches.size(); ++i) {
    ahead[i].assign(i, false);
    // the nearest first: what it waits for itself needs no edge
    for (std::size_t j = i; j-- > 0;) {
      const Uses &first = launches[j], &second = launches[i];
      const bool apart = !touch(first, second) && !(first.exchanges && second.exchanges);
      if (ahead[i][j] || (apart && worthwhile(first, second, capacity))) continue;
      after[i].push_back(j);
      ahead[i][j] = true;
      for (std::size_t k = 0; k < j; ++k)
        if (ahead[j][k]) ahead[i][k] = true;
    }
    std::reverse(after[i].begin(), after[i].end());
  }
  return after;
}

}  // namespace coda::network::gpu
