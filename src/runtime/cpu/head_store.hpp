#pragma once
/// A head: a second contraction, of a store as soon as that is complete.

#include <memory>

#include "runtime/common/executable_impl.hpp"
#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"

namespace unisono::cpu {

/// An executable of all stores of `source`; `others` is that of ir::without_head(source). Gives `others` itself if
/// there is no head.
std::shared_ptr<const ExecutableImpl> with_head_store(std::shared_ptr<const ExecutableImpl> others,
                                                      const Contraction& contraction, const Graph& source,
                                                      const CompileOptions& options);

}  // namespace unisono::cpu
