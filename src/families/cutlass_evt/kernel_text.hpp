#pragma once
/// The parts of a kernel's text that differ between versions of CUTLASS.

#include <string>

#include "families/cutlass_evt/config.hpp"
#include "families/cutlass_evt/topology.hpp"
#include "families/cutlass_evt/visitors.hpp"

namespace unisono::families::cutlass_evt {

struct KernelText {
  std::string includes;
  std::string types;  ///< ElementA, ElementB, ElementD and Visitors among them
  std::string host;   ///< int run(const Parameter&, cudaStream_t): 0, a cutlass::Status, or 1000 and a cudaError_t
};

/// CUTLASS 3.x: collectives that load by TMA.
KernelText sm90_kernel(const Config& config, const Visitors& visitors, const Tree& tree);

/// CUTLASS 2.x: main loops that load by cp.async.
KernelText sm80_kernel(const Config& config, const Visitors& visitors, const Tree& tree);

/// An operand's element as CUTLASS multiplies it, and its elements in 16 bytes.
std::string factor_name(DType t);
int alignment_of(DType t);

}  // namespace unisono::families::cutlass_evt
