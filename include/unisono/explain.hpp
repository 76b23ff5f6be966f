#pragma once
/// Shows what compile() would run on a GPU. Needs no GPU, driver or compiler.

#include <cstddef>
#include <string>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"

namespace unisono {

/// A kernel, its plan and its source.
struct KernelExplanation {
  std::string contraction;             ///< "gemm 512x4096x1024, B transposed, bf16"
  std::string device;                  ///< "NVIDIA H200"
  std::string device_note;             ///< why the device is not a GPU of this machine; empty if it is
  std::string plan;                    ///< docs/plan.md says how to read it
  PlanOverride plan_override;          ///< a CompileOptions::plan_override that fixes the whole plan
  std::string origin;                  ///< where the plan comes from: the cost model, or a measurement
  double predicted_us = 0;             ///< microseconds, by the cost model
  std::size_t workspace_bytes = 0;     ///< for each execution in flight
  bool takes_slices = false;           ///< whether the image may be a range of channels of a wider one
  std::string reasons;                 ///< lines: why it is taken, the next best plans, why others were refused
  std::vector<std::string> tensors;    ///< what a launch passes: the operands, as Arguments names them; "output"
  std::vector<std::string> arguments;  ///< what a launch passes besides
  std::string source;                  ///< CUDA C++, the user's functions included
};

/// Plans and generates a kernel for the GPU of options.device_index, or for an H200 if there is none. options.device is
/// ignored. Nothing is compiled. Throws UserError and Unsupported as compile() does.
KernelExplanation explain_kernel(const Contraction& contraction, const Graph& graph,
                                 const CompileOptions& options = {});

/// Formats everything except the source for people to read.
std::string to_string(const KernelExplanation& explanation);

}  // namespace unisono
