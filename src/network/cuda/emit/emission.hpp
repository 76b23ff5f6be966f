#pragma once
/// From the decisions about a network (decide/) to its launches: each function writes down those of one kind of region,
/// or of a part of one. They decide nothing, and throw Unsupported only for extents that plain kernels cannot count.

#include <map>
#include <optional>
#include <string>

#include "network/cuda/emit/region_emission.hpp"

namespace unisono::network::gpu {

/// All launches of the network, and what runs on the host.
LaunchSequence emit(const PlanningInput& in, const NetworkPlan& plan);

/// A tensor that enters or leaves the memory of the kernels.
struct BorderTensor {
  TensorId id{};
  std::size_t position = 0;  ///< its row of the table of the caller's tensors
  enum class Way : std::uint8_t { input, output, to_host, from_host } way{};

  bool enters() const { return way == Way::input || way == Way::from_host; }
  bool is_callers() const { return way == Way::input || way == Way::output; }
};
/// Its change of layout and type.
void emit_border(RegionEmission& e, const BorderTensor& tensor);

/// Regions without kernels, and the changes of layout and type of what they read and make.
void emit_host(RegionEmission& border, const HostGroup& group);

/// The change of layout of an input for one convolution: its filter taps of an image row become channels. Where it is.
Location emit_im2col(RegionEmission& e, const Conv2d& given, const Conv2d& im2col);

/// A contraction, its epilogue, and what is made of its output.
void emit_contraction(RegionEmission& e, const RegionPlan& plan);
/// A kernel of the tensor cores. `placed`: where outputs in scratch lie, by name.
void emit_kernel(RegionEmission& e, const FamilyKernel& kernel, const std::map<std::string, Location>& placed);
/// The contraction by a kernel for tensors.
void emit_direct(RegionEmission& e, const PitchedTensor& sums, const Refusal& why);
/// The large image of a convolution that upsamples its own.
PitchedTensor emit_upsampled_image(RegionEmission& e);

/// An epilogue graph over the tensor `acc`; `apart`: why it is in no contraction's kernel, if there is one.
void emit_graph(RegionEmission& e, const Region& r, const Extents& space, const std::optional<PitchedTensor>& acc,
                const std::optional<Refusal>& apart);

/// In place of a kernel that joins states: results of reductions over the source, from its parts' moments.
void emit_joined_moments(RegionEmission& e, const Region& r, const Graph& graph, const codegen::GraphKernel& kernel,
                         const Extents& space, std::map<ValueId, PlacedTensor>& results);

/// A product of two computed tensors, and attention.
void emit_product(RegionEmission& e);
void emit_attention(RegionEmission& e);
/// The gradient of a filter.
void emit_filter_gradient(RegionEmission& e);
/// Gradients of a normalisation's input, scale and shift.
void emit_norm_gradient(RegionEmission& e);

/// Region::layers as one launch.
void emit_small_layers(RegionEmission& e, const SmallLayersPlan& plan);

/// An operator that runs by itself.
void emit_single(RegionEmission& e);
/// Launches of tensor kernels; `what`: LaunchText::what of each.
void emit_tensor_kernels(RegionEmission& e, const TensorLaunches& made, const std::string& what);

/// Packs the operands that the region's kernels cannot read where they are.
void emit_gathered_operands(RegionEmission& e, const Region& r, const RegionPlan& plan);

}  // namespace unisono::network::gpu
