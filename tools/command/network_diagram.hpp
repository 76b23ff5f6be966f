#pragma once
/// Diagrams of networks.

#include <map>
#include <string>
#include <vector>

#include "figure/boxes.hpp"
#include "unisono/network.hpp"

namespace unisono::command {

/// What a box says beside what it is.
struct RegionNote {
  std::string text;  ///< "61.3 us, 12 % of all; 71 % of the peak"
  double heat = 0;   ///< 0 to 1: how red it is
};
/// By the name of the tensor that a region makes.
using RegionNotes = std::map<std::string, RegionNote>;

/// The times of a run, all steps of a region together.
RegionNotes notes_of(const std::vector<StepTime>& profile);
/// The times that the cost model predicts for a GPU.
RegionNotes notes_of(const DeviceReport& report);

/// The network as the fuser cuts it for the device of the options: every region a box, with what it fused; an arrow is
/// a tensor that one region writes and another reads.
figure::BoxDiagram diagram_of(const Network& network, const std::string& title, const NetworkOptions& options,
                              const RegionNotes& notes = {});

}  // namespace unisono::command
