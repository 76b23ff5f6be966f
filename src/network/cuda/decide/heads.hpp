#pragma once
/// A head (regions.hpp) as the kernel of the contraction ahead of it computes it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "network/cuda/decide/region_plan.hpp"
#include "unisono/graph.hpp"

namespace unisono::network::gpu {

/// What a kernel with a head takes and gives beside its own.
struct HeadArguments {
  std::shared_ptr<const Head> head = {};  ///< null: none
  bool only = false;                      ///< nothing else reads the tensor that it multiplies
  std::vector<Argument> operands;         ///< the filter and the columns
  Argument result;
  std::string about;  ///< for Step::how
  double flop = 0;
};

/// Why the names of the head's operands and result cannot stand beside those of the region.
std::optional<Refusal> refuse_head_names(const PlanningInput& in, const Region& r);

/// The head of the region, of which `main` is the contraction.
HeadArguments head_of(const PlanningInput& in, const Region& r, const Contraction& main);

}  // namespace unisono::network::gpu
