#pragma once
/// Epilogues whose generated visitors run on the CPU: those that are recorded under tests/golden/codegen, and random
/// ones.

#include <string>
#include <vector>

#include "codegen/codegen.hpp"
#include "support/random_graph.hpp"

namespace unisono::codegen {

struct HostCase {
  std::string title;
  test::RandomCase problem;  ///< contraction, graph as the user writes it, arguments
  plan::Epilogue epilogue;
  Options options;
  Kernel kernel;
};

/// The same cases in the same order each time.
std::vector<HostCase> host_cases();

}  // namespace unisono::codegen
