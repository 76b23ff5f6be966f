#pragma once
/// A run of a network whose outputs are poisoned and lie between guards.

#include <map>
#include <string>

#include "onnx/node_case.hpp"
#include "unisono/network.hpp"

namespace unisono::test {

struct Outputs {
  std::map<std::string, CaseTensor> tensors;
  std::string trouble;  ///< memory beside an output was written, or an input; empty: neither
};

/// Outputs are filled with `poison` before.
Outputs run_guarded(const NetworkExecutable& executable, const std::map<std::string, CaseTensor>& inputs,
                    std::byte poison);

/// Which output differs in its bits; empty: none.
std::string bits_differ(const Outputs& a, const Outputs& b);

}  // namespace unisono::test
