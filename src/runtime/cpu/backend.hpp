#pragma once
/// The last steps of compiling for the CPU: from a partitioned graph to an executable.

#include <memory>

#include "passes/partition.hpp"
#include "runtime/common/executable_impl.hpp"
#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"

namespace unisono::cpu {

/// Threads of one execution. Throws UserError for a number that none can have.
int thread_count(const CompileOptions& options);

/// `source` is the graph as the caller wrote it, `graph` the same after the passes, `stages` its partition. Throws
/// UserError and Unsupported as unisono::compile does.
std::shared_ptr<const ExecutableImpl> build(const Contraction& contraction, const Graph& source, const Graph& graph,
                                            const passes::Partition& stages, const CompileOptions& options);

}  // namespace unisono::cpu
