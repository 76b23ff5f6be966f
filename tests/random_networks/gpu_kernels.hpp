#pragma once
/// Which kernels networks ask of the compiler, and compiling them ahead.

#include <set>
#include <string>
#include <vector>

#include "random_networks/case_file.hpp"
#include "unisono/network.hpp"

namespace unisono::test {

/// One hash a kernel. Throws as compile does.
std::set<std::string> kernels_of(const ModelWithData& model, const NetworkOptions& options);

/// Compiles the kernels of all these models in parallel into the cache. Gives their number; models that are refused
/// have none. Throws CompileError.
std::size_t compile_kernels(const std::vector<std::string>& paths, const NetworkOptions& options);

}  // namespace unisono::test
