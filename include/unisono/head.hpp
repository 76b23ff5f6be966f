#pragma once
/// A second, small product that a GPU kernel computes of the [m,n] store that it writes last, as it stores it.

#include <cstdint>
#include <string>

#include "unisono/graph.hpp"

namespace unisono {

/// A 1x1 convolution of the store's n channels (of a product: a product with its rows), from their values as they are
/// rounded; sums are f32.
struct Head {
  std::int64_t channels = 0;  ///< of its result, at most 32; 0: there is none
  /// What follows the sums, `acc`: one [m,n] store of 16 bits, whose name is that of the result in Arguments::outputs,
  /// and operands without axes or with axes [n], [b], [b,n], n being the head's channels. Names are none of the main
  /// graph's. The result's pixels may lie apart.
  Graph graph = {};
  /// The operand (channels, 1, 1, n), of a product (channels, n), of the store's dtype.
  std::string filter = "filter";
  /// The store's own values are not wanted: its tensor is bound all the same, as room in which tiles may wait, and what
  /// it holds afterwards is anything.
  bool only = false;

  bool any() const { return channels != 0; }
};

}  // namespace unisono
