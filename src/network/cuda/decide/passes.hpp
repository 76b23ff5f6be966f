#pragma once
/// The decisions about the regions of a network on a GPU, one pass each, in the order of decision_passes(). A pass
/// reads what those before it have decided and writes its own part of the plan; nothing is launched, and no pass is
/// undone.

#include <functional>
#include <span>
#include <string_view>

#include "network/cuda/decide/region_plan.hpp"

namespace unisono::network::gpu {

struct DecisionPass {
  std::string_view name;
  void (*run)(const PlanningInput&, NetworkPlan&);
};

std::span<const DecisionPass> decision_passes();

/// All of them. Throws Unsupported for a graph that no pass of the compiler serves.
NetworkPlan decide(const PlanningInput& in);

// Over the network

/// Regions that no kernel serves, whatever is decided of the others: they run on the host.
void find_unserved(const PlanningInput& in, NetworkPlan& plan);
/// Regions of values that descend from integers alone, which kernels would round to 16 bits: they run on the host, too.
void keep_integers_exact(const PlanningInput& in, NetworkPlan& plan);
/// Inputs of few channels (MemoryStyle::im2col_channels) that reach their only convolution with the filter taps of an
/// image row as channels.
void find_im2col_inputs(const PlanningInput& in, NetworkPlan& plan);
/// Operands that a launch of their own has to pack.
void find_gathered_operands(const PlanningInput& in, NetworkPlan& plan);
/// Normalisations of a tensor whose parts are made by kernels of convolutions, and of which tensors these are to store
/// moments.
void want_statistics(const PlanningInput& in, NetworkPlan& plan);
/// Which of the wanted statistics come from their producers: each producer is asked for kernels that store them.
/// Statistics of which one part is stored by nobody are wanted of none; producers that are wanted for others keep the
/// kernels that they answered with.
void merge_statistics(const PlanningInput& in, NetworkPlan& plan);
/// Pairs of layers of a pixel an image that are one launch: Region::layers.
void join_small_layers(const PlanningInput& in, NetworkPlan& plan);
/// Which attention cuDNN computes, if it is asked for. Throws Unsupported where there is none.
void choose_attention(const PlanningInput& in, NetworkPlan& plan);
/// The kernels of all other contractions.
void choose_kernels(const PlanningInput& in, NetworkPlan& plan);
/// Pools that no contraction's kernel computes, of which such a launch makes what it reads.
void join_pools(const PlanningInput& in, NetworkPlan& plan);
/// Contractions whose epilogue is not in their kernel, and in none of its own either: they run on the host.
void find_unserved_epilogues(const PlanningInput& in, NetworkPlan& plan);
/// Which neighbours among the regions on the host are one step, and which tensors cross.
void group_host_regions(const PlanningInput& in, NetworkPlan& plan);

/// Whether a region is launched, and by kernels.
bool has_kernels(const PlanningInput& in, const NetworkPlan& plan, std::size_t region);
/// The same of one with a contraction.
bool needs_kernels(const PlanningInput& in, const NetworkPlan& plan, std::size_t region);
/// The kernels of such a region, with the moments that are wanted of it if they can be stored.
RegionKernels kernels_of(const PlanningInput& in, const NetworkPlan& plan, std::size_t region);

// The parts of kernels_of(), in their order

/// Pools and upsamplings that its kernel stores.
void store_resampled(const PlanningInput& in, const NetworkPlan& plan, std::size_t region, RegionKernels& own);
/// The reduction that its kernel computes. Whose own regions are then launched no more: choose_kernels().
void store_reduced(const PlanningInput& in, const NetworkPlan& plan, std::size_t region, RegionKernels& own);
/// Its kernel, if no part before has found one.
void choose_kernel_alone(const PlanningInput& in, const NetworkPlan& plan, std::size_t region, RegionKernels& own);

/// The output of a region of which moments are wanted, if there is one.
std::optional<TensorId> wanted_output(const NetworkPlan& plan, const Region& r);

/// Whether a kernel over the source of a region makes, or joins, sums over rows of which moments will do.
bool takes_moments(const Graph& optimised, ValueId reduction);
/// Channels of which a reduction makes one result.
std::int64_t width_of(const ReduceDomain& domain, std::int64_t columns);

}  // namespace unisono::network::gpu
