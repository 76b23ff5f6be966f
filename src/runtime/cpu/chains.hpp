#pragma once
/// How long a sum of products may be before it is divided into parts.

#include <cstdint>

namespace unisono::cpu {

/// A float32 sum of n products, added one after the other as oneDNN does in registers, is off by a random walk of about
/// √(n/2) roundings. Sums longer than this are made of parts whose walks start at 0, as other libraries' are.
inline constexpr std::int64_t longest_chain = 320;

/// The length of the parts of a sum of `terms` products: all of them, or parts of equal length but for the last.
constexpr std::int64_t chain_length(std::int64_t terms) {
  if (terms <= longest_chain) return terms;
  const std::int64_t parts = (terms + longest_chain - 1) / longest_chain;
  constexpr std::int64_t step = 16;  // floats of a vector
  return ((terms + parts - 1) / parts + step - 1) / step * step;
}

}  // namespace unisono::cpu
