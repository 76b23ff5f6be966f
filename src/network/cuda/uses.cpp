#include "network/cuda/uses.hpp"

#include <algorithm>

namespace unisono::network::gpu {

namespace {

// Columns of rows that lie equally far apart: bytes with different remainders by the pitch are different bytes
bool are_columns_apart(const Interval& a, const Interval& b) {
  const std::size_t pitch = std::max(a.rows > 1 ? a.pitch : 0, b.rows > 1 ? b.pitch : 0);
  const auto fits = [&](const Interval& x) { return x.width <= pitch && (x.rows == 1 || x.pitch == pitch); };
  if (pitch == 0 || !fits(a) || !fits(b)) return false;
  const std::size_t from = (b.begin % pitch + pitch - a.begin % pitch) % pitch;  // b's first column, counted from a's
  return from >= a.width && from + b.width <= pitch;
}

}  // namespace

bool overlap(const Interval& a, const Interval& b) {
  if (a.space != b.space || a.width == 0 || b.width == 0 || a.rows == 0 || b.rows == 0) return false;
  if (a.end() <= b.begin || b.end() <= a.begin) return false;
  return !are_columns_apart(a, b);
}

}  // namespace unisono::network::gpu
