#pragma once
/// The kernels that a case may run by. Needs no GPU up to the last step.

#include <string>
#include <vector>

#include "jit/jit.hpp"
#include "lower/lower.hpp"
#include "unisono/executable.hpp"

namespace unisono::bench {

/// How a convolution and its epilogue may be run.
struct Variant {
  lower::Lowered lowered;
  jit::Request request;
};

struct Variants {
  lower::Problem problem;
  std::vector<Variant> list;  ///< the fastest predicted first
};

/// The `count` best-predicted legal plans (0: all). `fixed` as CompileOptions::plan. Throws Unsupported with the
/// reasons if none is legal, UserError for a wrong override.
Variants variants_of(const Contraction& contraction, const Graph& graph, const std::string& fixed,
                     const plan::Device& device, int count);

/// A variant for each of these plans. Throws as variants_of().
Variants variants_of(const Contraction& contraction, const Graph& graph, const std::vector<std::string>& plans,
                     const plan::Device& device);

/// What became of kernels that were to be in the cache.
struct Compilation {
  std::size_t kernels = 0, unkept = 0;  ///< different ones, and how many of them compiled and could not be kept
  std::vector<std::string> failures;    ///< what the compiler says of each that does not compile
  std::vector<std::string> warnings;    ///< why kernels could not be kept
};
/// Compiles all into the cache, `jobs` at once (0: one a core), with lines of progress on standard error.
Compilation compile_all(const std::vector<const Variants*>& all, const plan::Device& device, int jobs);

/// A kernel ready to be bound, with what the assembler said of it.
struct Built {
  Executable executable;
  jit::Resources resources;
};
Built build(const Variant& variant);

}  // namespace unisono::bench
