#pragma once
/// What cuDNN and cuBLASLt have in common as peers.

#include <string>
#include <vector>

#include "bench/replays.hpp"

namespace unisono::bench {

/// One of the ways in which a library proposes to run a case.
struct Engine {
  std::string name;           ///< "proposal 7 of 12"
  std::vector<Enqueue> sets;  ///< one for each set of operands
};

}  // namespace unisono::bench
