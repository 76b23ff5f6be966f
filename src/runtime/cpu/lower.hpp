#pragma once
/// From a partitioned graph to programs of the vector machine.

#include "passes/partition.hpp"
#include "runtime/cpu/program.hpp"
#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"

namespace unisono::cpu {

/// `segment_rows` bounds the rows of a block. Throws UserError for groups that do not divide the columns, and
/// Unsupported for functions without a CPU callable.
Plan lower(const Graph& graph, const passes::Partition& partition, const Extents& extents,
           const CompileOptions& options, std::int64_t segment_rows);

}  // namespace unisono::cpu
