#pragma once
/// One question to the planner: is there a kernel of some family for this contraction, with this graph behind it,
/// of tensors that lie so?

#include <span>
#include <string>
#include <vector>

#include "network/cuda/decide/region_plan.hpp"
#include "network/cuda/decide/upsampled_images.hpp"

namespace unisono::network::gpu {

/// A store of a graph and where it goes.
struct Destination {
  std::string name;
  PitchedTensor to;
  std::optional<TensorId> tensor = {};  ///< absent: the contraction's sums
};

struct KernelQuestion {
  const Region& region;
  const Graph& graph;                            ///< behind the contraction; of the region, or one that only stores
  std::span<const RegionOperand> operands = {};  ///< that it reads
  std::span<const GatheredOperand> gathered = {};
  std::vector<Destination> outputs = {};  ///< by its stores
  Beside beside = Beside::nothing;
  Form form = Form::given;
  std::optional<TensorId> moments = {};  ///< an output of which moments are to be stored, too
  std::optional<std::size_t> only = {};  ///< one of a region of two contractions (its operator); none: both
  std::string sums = {};                 ///< an operand [m,n] that the other's kernel leaves in scratch; empty: none
};

/// The kernel, but for locations in scratch and kept memory; or why there is none.
KernelChoice choose_kernel(const PlanningInput& in, const NetworkPlan& plan, const KernelQuestion& question);

}  // namespace unisono::network::gpu
