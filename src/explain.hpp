#pragma once
/// What Unisono would run on a GPU, without running it.

#include <optional>
#include <string>
#include <vector>

#include "codegen/codegen.hpp"
#include "plan/device.hpp"
#include "unisono/executable.hpp"

namespace unisono::cuda {

struct Explanation {
  std::string contraction;
  std::string device;          ///< "NVIDIA H200"
  std::string device_note;     ///< why it is not the GPU of this machine; empty if it is
  std::string plan;            ///< the one that is taken
  PlanOverride plan_override;  ///< fixes this plan
  std::string origin;          ///< where it comes from: the cost model, or what was measured
  double predicted_us = 0;
  std::size_t workspace_bytes = 0;
  bool takes_slices = false;           ///< an image whose pixels lie apart
  std::string reasons;                 ///< why it is taken, the next best, and why others were refused; lines
  std::vector<std::string> tensors;    ///< what is multiplied, as Arguments has it, and "output"
  std::vector<codegen::Field> fields;  ///< what a launch hands to the visitor
  std::string source;
  plan::Device planned_for;
};

/// Plans and generates for `device`, else for the GPU of options.device_index, or for an H200 where there is none.
/// Nothing is compiled.
/// Throws UserError and Unsupported as compile() does.
Explanation explain(const Contraction& contraction, const Graph& graph, const CompileOptions& options = {},
                    const std::optional<plan::Device>& device = {});

/// For people to read: everything but the source, which they may want by itself.
std::string to_text(const Explanation& explanation);
/// The same where a launch hands over these arguments, whatever the fields say.
std::string to_text(const Explanation& explanation, const std::vector<std::string>& arguments);

/// "operand bias[n] : f32".
std::string title(const codegen::Field& field);

}  // namespace unisono::cuda
