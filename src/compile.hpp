#pragma once
/// The part of the way to a GPU that needs none: from a graph to the text of a kernel.

#include "codegen/codegen.hpp"
#include "jit/jit.hpp"
#include "plan/conv.hpp"
#include "plan/epilogue.hpp"
#include "tuning/choose.hpp"
#include "unisono/executable.hpp"

namespace unisono {

struct ConvKernel {
  plan::Epilogue epilogue;
  plan::ConvPlan plan;
  codegen::Kernel kernel;
  tuning::Chosen chosen;  ///< where the plan comes from
};

/// `optimised` is the graph after the passes. Throws UserError for options that are wrong and Unsupported where no
/// kernel serves.
ConvKernel conv_kernel(const Contraction& contraction, const Graph& optimised, const plan::Device& device,
                       const CompileOptions& options);

/// The same for a plan that is chosen already.
codegen::Kernel generate(const plan::Epilogue& epilogue, const plan::ConvPlan& plan, const CompileOptions& options);

/// What the compiler is asked for.
jit::Request request(const codegen::Kernel& kernel, const plan::ConvPlan& plan, const Contraction& contraction);

}  // namespace unisono
