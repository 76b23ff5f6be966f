#pragma once
/// What is tuned: a contraction and its epilogue for one shape, and the plans that are tried.

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "jit/jit.hpp"
#include "lower/lower.hpp"
#include "unisono/executable.hpp"

namespace unisono::tuner {

using lower::Problem;

/// A plan on its way: predicted, compiled, timed.
struct Trial {
  lower::Lowered lowered;
  jit::Request request;
};

/// At most `count` legal plans, the one that would be taken now and the cost model's first, then the best of each tile,
/// order, mode and way of loading, and what else is predicted to be fast. Throws Unsupported if there is none.
std::vector<Trial> trials_of(const Problem& problem, const plan::Device& device, std::size_t count);

/// The tensors and scalars that a graph reads beside the accumulator, each once, in the order of their nodes.
std::vector<const Node*> operands_of(const Graph& graph);

/// Dtype of an operand in memory.
DType storage_of(const Node& operand, const CompileOptions& options);

}  // namespace unisono::tuner
