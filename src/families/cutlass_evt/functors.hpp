#pragma once
/// What a Compute visitor calls for each fragment: CUTLASS's functor where it computes what the graph says, else one
/// whose body is that of our own kernels.

#include <optional>
#include <string>
#include <vector>

#include "unisono/graph.hpp"

namespace unisono::families::cutlass_evt {

struct Functor {
  std::string name;             ///< a class template of one type: "cutlass::plus", "Mish7"
  std::string definition = {};  ///< its text if it is ours; else empty
  std::string arguments = {};   ///< initialisers of its Arguments: "0.f, 6.f"
  std::vector<ValueId> inputs;  ///< values that it reads, in order; with ours no constants
};

/// The functor of an elementwise node or call. `takes_arguments`: visitors give functors their Arguments; else numbers
/// stand in their text.
Functor functor_of(const Graph& graph, ValueId id, bool takes_arguments);

/// The value itself, rounded to the visitor's element.
Functor identity_functor(ValueId of);
Functor product_functor(ValueId x);

}  // namespace unisono::families::cutlass_evt
