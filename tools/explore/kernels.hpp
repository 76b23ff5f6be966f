#pragma once
/// What is known of a kernel, as JSON: its plan, the candidates, shared memory, registers.

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "jit/layers.hpp"
#include "jit/request.hpp"
#include "lower/lower.hpp"

namespace unisono::explore {

/// Each piece of text once. Pages hold the pieces, launches their indices.
class Texts {
 public:
  std::size_t of(const std::string& text);
  nlohmann::json json() const { return all_; }

 private:
  std::map<std::string, std::size_t> known_;
  std::vector<std::string> all_;
};

/// The plan that a problem gets on a device, the next best ones with their predicted times, the refused ones with their
/// reasons, and what lies in shared memory. `how`: LaunchReport::how, which names the plan that the launch has.
nlohmann::json describe_kernel(const lower::Problem& problem, const plan::Device& device, const std::string& how);

/// What lies in a CTA's dynamic shared memory: {"name", "bytes", "pieces"}, from the start.
nlohmann::json shared_memory(const families::Plan& plan);

/// Finds kernels that were compiled before in the packs and the cache of this machine.
class Compiled {
 public:
  Compiled();
  /// Registers, spills, stack and the size of the binary; null if the kernel was not compiled here.
  nlohmann::json find(const jit::Request& request);

 private:
  jit::Layers layers_;
};

}  // namespace unisono::explore
