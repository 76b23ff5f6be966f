#pragma once
/// How kernels over a tensor write a reduction: within rows, or over rows in parts that are joined.

#include <string>
#include <string_view>

#include "unisono/graph.hpp"

namespace unisono::codegen {

/// Results in a row of results.
std::string result_columns(const ReduceDomain& domain);

/// What one result within a row is made of, from the number of the CTA.
std::string domain_text(const ReduceDomain& domain);

/// The result of a reduction within a row, by so many threads.
std::string reduction_text(Op op, int threads);

/// The state that a part of the rows leaves, its floats, and the result of the whole state.
std::string_view state_of(Op op);
int state_floats(Op op);
std::string_view result_of(Op op);

}  // namespace unisono::codegen
