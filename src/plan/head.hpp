#pragma once
/// The head of a kernel, a second product of what it stores: kernels/unisono/epilogue/sm90_head.cuh.

#include <cstdint>
#include <string>
#include <vector>

#include "plan/epilogue.hpp"
#include "unisono/contraction.hpp"
#include "unisono/head.hpp"

namespace unisono::plan {

/// Fields of a configuration.
struct HeadConfig {
  int eights = 0;     ///< of the head's channels; 0: no head
  bool only = false;  ///< the main store is not written
  bool any() const { return eights != 0; }
  bool operator==(const HeadConfig&) const = default;
};

/// An epilogue's head, analysed.
struct PlannedHead {
  std::int64_t channels = 0;
  std::string filter;  ///< name of its operand
  bool only = false;
  Contraction contraction;            ///< of the main store's tensor with the filter
  std::vector<std::string> operands;  ///< names, as the graph was written
  Epilogue epilogue;
};

/// The product of the main store's tensor, of this type, with the filter. Throws Unsupported for products of a batch.
Contraction head_contraction(const Contraction& main, std::int64_t channels, DType type);

HeadConfig head_of(const Epilogue& epilogue);

/// Adds a head to the epilogue, after resample(). Throws UserError for channels, names and operands that a head cannot
/// have; Unsupported for graphs, stores and contractions that none can follow.
void add_head(Epilogue& epilogue, const Head& wanted, const Contraction& contraction);

/// "head 24 alone", for descriptions of a plan; empty for none.
std::string to_string(const HeadConfig& head);

}  // namespace unisono::plan
