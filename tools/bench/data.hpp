#pragma once
/// Operands and outputs of a case in the GPU's memory.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/cases.hpp"
#include "gpu/device.hpp"
#include "unisono/executable.hpp"

namespace unisono::bench {

/// One set: image, filter (or both factors of a product, of `dtype`), operands, outputs. Random numbers: the image and
/// most operands of deviation 1 about 0, `gamma` about 1, the filter such that the accumulator has deviation 1.
class Data {
 public:
  /// Throws UserError for an operand of integers or bools, DeviceError if the memory does not suffice.
  Data(const Contraction& contraction, DType dtype, const Graph& graph, std::uint64_t seed);

  const Arguments& arguments() const { return arguments_; }
  const gpu::Buffer& buffer(const std::string& name) const { return *buffers_.at(name); }
  /// Output `name` in the host's memory.
  std::vector<std::byte> output(const std::string& name) const { return outputs_.at(name)->contents(); }
  void poison() const;
  /// Arguments with the same operands in the host's memory, kept alive by `memory`; no outputs.
  Arguments on_host(std::map<std::string, std::vector<std::byte>>& memory) const;

 private:
  gpu::Buffer& add(const std::string& name, DType dtype, std::int64_t count, double mean, double deviation,
                   std::uint64_t seed);
  Arguments arguments_;
  std::map<std::string, std::unique_ptr<gpu::Buffer>> buffers_, outputs_;  ///< "a", "b" and operands
};

/// As many as rotating_sets() says.
std::vector<std::unique_ptr<Data>> make_sets(const Case& c, const Contraction& contraction, const Graph& graph,
                                             std::uint64_t seed);

/// Values of the scalar operands that have no default.
std::map<std::string, double> scalars_of(const Graph& graph);

}  // namespace unisono::bench
