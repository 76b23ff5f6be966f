#pragma once
/// Running one of ONNX's backend tests.

#include <string>

#include "node_case.hpp"
#include "unisono/network.hpp"

namespace unisono::test {

struct Outcome {
  enum class Kind { passed, refused, failed } kind = Kind::passed;
  std::string text = {};  ///< why it was refused, or what is wrong
  bool on_host = false;   ///< it passed on a GPU, in part on the host
  bool compared = true;   ///< false: rounding leaves nothing to compare of one of its outputs
};

/// Loads, runs and compares. `symbols`: with symbols in place of the extents of all inputs that are not parameters. On
/// a GPU the outputs are compared with the float64 reference instead, as far as its rounding to 16 bits allows; that
/// these are the ones of the test, the CPU shows.
Outcome run_case(const NodeCase& c, bool symbols, const NetworkOptions& options = {.threads = 1});

}  // namespace unisono::test
