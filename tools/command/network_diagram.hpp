#pragma once
/// Diagrams of networks.

#include <string>

#include "coda/network.hpp"
#include "figure/boxes.hpp"

namespace coda::command {

/// The network as the fuser cuts it: every region a box, with what it fused; an arrow is a tensor that one region
/// writes and another reads.
figure::BoxDiagram diagram_of(const Network& network, const std::string& title);

}  // namespace coda::command
