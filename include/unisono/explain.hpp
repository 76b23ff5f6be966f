#pragma once
/// What compile() would run on a GPU, without a GPU, a driver or a compiler.

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
  std::string device_note;             ///< why it is not a GPU of this machine; empty if it is
  std::string plan;                    ///< docs/plan.md says how to read it
  PlanOverride plan_override;          ///< CompileOptions::plan_override that fixes all of it
  std::string origin;                  ///< where the plan comes from: the cost model, or what was measured
  double predicted_us = 0;             ///< by the cost model
  std::size_t workspace_bytes = 0;     ///< for each execution in flight
  bool takes_slices = false;           ///< the image may be channels of a wider one, whose pixels lie apart
  std::string reasons;                 ///< why it is taken, the next best, and why others were refused; lines
  std::vector<std::string> tensors;    ///< handed over: what is multiplied, as Arguments names it; "output"
  std::vector<std::string> arguments;  ///< and beside that
  std::string source;                  ///< CUDA C++, the user's functions included
};

/// Plans and generates for the GPU of options.device_index, or for an H200 where there is none, whatever
/// options.device says. Nothing is compiled. Throws UserError and Unsupported as compile() does.
KernelExplanation explain_kernel(const Contraction& contraction, const Graph& graph,
                                 const CompileOptions& options = {});

/// For people to read: everything but the source.
std::string to_string(const KernelExplanation& explanation);

}  // namespace unisono
