#pragma once
/// What is planned for a GPU: the regions of a network for one set of input shapes, and the tensors between them.

#include <optional>
#include <string>
#include <vector>

#include "network/contraction.hpp"
#include "network/cuda/constants.hpp"
#include "network/cuda/graph_kernel_cache.hpp"
#include "network/cuda/memory.hpp"
#include "network/operand_view.hpp"
#include "network/regions.hpp"
#include "network/storage.hpp"
#include "plan/device.hpp"

namespace unisono::network::gpu {

/// Everything must outlive the planning.
struct PlanningInput {
  const FusedNetwork& fused;
  const StoragePlan& storage;
  const plan::Device& device;
  DeviceConstants& constants;
  GraphKernelCache& graph_kernels;
  DType element = DType::bf16;
  bool tuned = true;          ///< NetworkOptions::tuned
  bool watchdog = false;      ///< NetworkOptions::watchdog
  bool filters_ahead = true;  ///< kernels load constant filters before the launches ahead have ended
  AttentionKernels attention = AttentionKernels::own;
  std::optional<int> gpu = {};            ///< the driver's index of the device; none: it is only described
  std::vector<std::string> on_host = {};  ///< operators that are to run on the host, whatever serves them: "gather"

  const Network& net() const { return fused.network; }
  const Region& region(std::size_t index) const { return fused.regions[index]; }
  /// The first operator of a region.
  const Operator& first(const Region& r) const { return net().operators[r.operators[0]]; }
  const std::string& name(TensorId id) const { return net()[id].name; }
  const Sizes& sizes(TensorId id) const { return storage.shapes[id]; }
  bool is_constant(TensorId id) const { return net()[id].is_constant(); }
  bool is_empty(TensorId id) const { return element_count(sizes(id)) == 0; }
  Contraction contraction(const Operator& op) const { return contraction_of(op, storage.shapes); }

  /// Where a constant, or a tensor with memory in the arena, lies, in its own type or in the element.
  PitchedTensor tensor(TensorId id) const;
  /// The same of a tensor in the element, for kernels that know no other. Throws InternalError for any else.
  PitchedTensor element_tensor(TensorId id) const;
  /// The same of a tensor in its own type or, of one that is computed, in the element: constants are as they are.
  PitchedTensor typed_tensor(TensorId id) const;
  /// Whether the region is launched at all: it is not free, and computes at least one element.
  bool is_launched(const Region& r) const;
};

/// How an operand of the graph of a region that begins with `first` is read from a tensor with these strides.
OperandView view_of(const PlanningInput& in, const RegionOperand& o, const Operator& first, const Sizes& strides);
/// The same of the tensor as it lies in memory.
OperandView view_of(const PlanningInput& in, const RegionOperand& o, const Operator& first);

/// How the elements of an operand are stored: vectors and scalars that are constants as f32.
DType operand_type(const PlanningInput& in, const RegionOperand& o);

/// An operand as kernels read it: constants that are no full tensors are f32, with rows of `padded_columns`. Nothing if
/// its columns do not lie together.
std::optional<PitchedTensor> operand_tensor(const PlanningInput& in, const RegionOperand& o, const Operator& first,
                                            std::int64_t padded_columns);

}  // namespace unisono::network::gpu
