#pragma once
/// Stores that are pooled or upsampled: made of a whole store as soon as that is complete.

#include <memory>

#include "runtime/common/executable_impl.hpp"
#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"

namespace unisono::cpu {

/// An executable of all stores of `source`; `whole` is that of passes::split_stores(source).graph. Gives `whole` itself
/// if there are no others. A store of which only the upsampled one is there is computed into memory of the execution.
std::shared_ptr<const ExecutableImpl> with_resampled_stores(std::shared_ptr<const ExecutableImpl> whole,
                                                            const Contraction& contraction, const Graph& source,
                                                            const CompileOptions& options);

}  // namespace unisono::cpu
