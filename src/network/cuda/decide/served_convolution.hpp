#pragma once
/// Contractions of a network as families are asked for them: channels padded with zeros where
/// nobody sees them.

#include <optional>
#include <string>

#include "network/cuda/decide/region_plan.hpp"

namespace unisono::network::gpu {

struct ServedConvolution {
  std::optional<Conv2d> conv = {};  ///< a transposed convolution has channels only
  /// Whether the image has fewer channels, and no zeros after them: a launch ahead of the kernel makes it.
  bool pads_image = false;
  std::optional<Refusal> refusal = {};
};

/// `graph` follows the contraction; one that reduces sees padded channels, so that none are.
ServedConvolution as_served(const PlanningInput& in, const NetworkPlan& plan, const Operator& op, const Graph& graph,
                            Form form);

/// Whether it has a value that is computed of several elements.
bool has_reductions(const Graph& g);

/// Whether what lies between the last column of a tensor and its pitch is zero.
bool is_padded_with_zeros(const PlanningInput& in, const NetworkPlan& plan, TensorId id);

/// As a single group, of which a filter has one channel.
Conv2d one_group(Conv2d c);

/// Why filters in groups have no kernel of the tensor cores.
Refusal refuse_groups(std::int64_t groups);

}  // namespace unisono::network::gpu
