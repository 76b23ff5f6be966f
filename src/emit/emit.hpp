#pragma once
/// Kernels as files for somebody else's build: nothing of Unisono is needed to compile, link or run them.

#include <string_view>

#include "families/interface/family.hpp"
#include "lower/lower.hpp"
#include "plan/expected.hpp"

namespace unisono::emit {

/// NAME.cu, which includes NAME.h, and the latter. `name`, an identifier, is the files' and goes ahead of the names of
/// the host functions: NAME_run(arguments, stream) enqueues the kernel on the tensors of NAME_arguments, for the
/// problem that it was lowered for; dense ones. With -DUNISONO_SELF_CHECK the source is a program that runs it and
/// compares every element with float64. A family whose text is a library for the host has files of its own.
/// The same kernel gives the same files.
plan::Expected<families::Standalone> files(const lower::Lowered& lowered, std::string_view name);

}  // namespace unisono::emit
