#pragma once
/// Which launches read what which others make, and where their boxes stand.

#include <string>
#include <vector>

#include "explore/launches.hpp"
#include "figure/layered.hpp"
#include "network/regions.hpp"

namespace unisono::explore {

/// A box: a launch, or an input or output of the network.
struct Box {
  std::size_t launch = no_launch;  ///< its index
  std::vector<std::string> lines;  ///< the first is the heading
  static constexpr std::size_t no_launch = static_cast<std::size_t>(-1);
};

struct Dataflow {
  std::vector<Box> boxes;  ///< in the order in which they run
  std::vector<figure::LayeredGraph::Edge> edges;
  figure::LayeredLayout layout;
  bool complete = true;  ///< false: the launches have regions that the fused network lacks
};

/// `fused` is the network that the launches are of. The launches of one region follow one another.
Dataflow dataflow_of(const network::FusedNetwork& fused, const FusionReport& report,
                     const std::vector<Launch>& launches);

/// Shortens the lines of the boxes to what fits, and places them.
void lay_out(Dataflow& flow);

/// Launches without a network: one after the other.
Dataflow in_a_row(const std::vector<Launch>& launches);

}  // namespace unisono::explore
