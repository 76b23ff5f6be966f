#pragma once
/// The head of a kernel, a second product of what it stores: kernels/unisono/epilogue/sm90_head.cuh.

#include <cstdint>
#include <optional>
#include <string>

#include "plan/epilogue.hpp"
#include "plan/refusal.hpp"
#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::plan {

/// Fields of a configuration.
struct HeadConfig {
  int eights = 0;     ///< eights of the head's channels; 0: no head
  bool only = false;  ///< the main store is not written
  bool any() const { return eights != 0; }
  bool operator==(const HeadConfig&) const = default;
};

/// A head of a graph's store, as ir::split_stores() finds it.
struct WantedHead {
  Head head = {};  ///< no channels: there is none
  /// The store's own values are not wanted. Its buffer must still be bound; it is used as scratch, and its contents are
  /// unspecified afterwards.
  bool only = false;
  std::string source = {};  ///< the store's name; empty: whichever is the main one
  bool any() const { return head.channels != 0; }
};

/// An epilogue's head, analysed.
struct PlannedHead {
  std::int64_t channels = 0;
  std::string filter;  ///< name of its operand
  bool only = false;
  Contraction contraction;  ///< the main store's tensor with the filter
  Epilogue epilogue;
};

HeadConfig head_of(const Epilogue& epilogue);

/// Adds a head to the epilogue, after resample(). Refuses graphs, stores and contractions that no kernel follows by a
/// head, and to if the main store is not the one that it multiplies.
[[nodiscard]] std::optional<Refusal> add_head(Epilogue& epilogue, const WantedHead& wanted,
                                              const Contraction& contraction);

/// "head 24 alone", for descriptions of a plan; empty for none.
std::string to_string(const HeadConfig& head);

}  // namespace unisono::plan
