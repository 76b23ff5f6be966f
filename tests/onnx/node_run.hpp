#pragma once
/// Running one of ONNX's backend tests.

#include <string>

#include "node_case.hpp"

namespace coda::test {

struct Outcome {
  enum class Kind { passed, refused, failed } kind = Kind::passed;
  std::string text;  ///< why it was refused, or what is wrong
};

/// Loads, runs and compares. `symbols`: with symbols in place of the extents of all inputs that are not parameters.
Outcome run_case(const NodeCase& c, bool symbols);

}  // namespace coda::test
