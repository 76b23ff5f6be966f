#pragma once
/// Where each tensor of a network lies in memory, for one set of input shapes.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "network/regions.hpp"
#include "network/sizes.hpp"
#include "network/space.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

/// Memory of one tensor: channels last if of rank 4 (unless planar), else row-major; rows (pixels) lie row_stride
/// elements apart.
struct Memory {
  enum class Where : std::uint8_t { arena, constant, input, output };
  Where where = Where::arena;
  std::size_t index = 0;   ///< arena: offset in bytes; constant: tensor; input, output: position
  std::size_t offset = 0;  ///< bytes after that
  std::int64_t row_stride = 1;
  bool dense = true;    ///< row_stride is the number of columns
  bool planar = false;  ///< channels first and dense: an input or output that a region uses as the caller has it
  bool unused = true;   ///< no step reads or writes it
};

/// What is planned for: sizes of all inputs, which of the caller's views can be used as they are (dense, and in the
/// order that the network uses inside), and which are dense with the channels first; of such outputs those that share
/// memory with no other argument.
struct PlanKey {
  std::vector<Sizes> inputs;
  std::vector<bool> direct_inputs, direct_outputs, planar_inputs, planar_outputs;
  auto operator<=>(const PlanKey&) const = default;
};

struct StoragePlan {
  std::vector<Sizes> shapes;   ///< by tensor, logical
  std::vector<Memory> memory;  ///< by tensor; only those that some step reads or writes
  std::size_t arena_bytes = 0, without_reuse = 0;
  int in_place = 0, slices = 0;
};

/// Shapes of all tensors for inputs of these sizes (logical order). Throws UserError for sizes that do not fit.
std::vector<Sizes> concrete_shapes(const Network& network, const std::vector<Sizes>& inputs);

/// Assigns memory. Steps are numbered: 0 the changes of layout of the inputs, i + 1 region i, and last those of
/// outputs.
StoragePlan plan_storage(const FusedNetwork& fused, const PlanKey& key, bool reuse);

/// Strides along the logical axes of a tensor of these sizes in the network's own order of memory.
Sizes logical_strides(const Sizes& sizes, std::int64_t row_stride);

/// The same of a tensor of these sizes in this memory, which may be the caller's.
Sizes memory_strides(const Memory& memory, const Sizes& sizes);

}  // namespace unisono::network
