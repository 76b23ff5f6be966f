#pragma once
/// The one way from a contraction and its epilogue to a kernel that is ready to be compiled and bound. It needs no GPU.
/// compile(), networks, the tuner, the benchmarks, `unisono explain` and `unisono pack` all take it.

#include <optional>
#include <set>
#include <string>

#include "codegen/codegen.hpp"
#include "families/interface/plan.hpp"
#include "jit/jit.hpp"
#include "plan/epilogue.hpp"
#include "plan/expected.hpp"
#include "tuning/choose.hpp"
#include "unisono/executable.hpp"

namespace unisono::lower {

/// What networks and tests ask of a kernel beyond CompileOptions.
struct Further {
  plan::StoredMoments moments = {};  ///< mean and M2 of the main store, stored beside it; no channels: none
  std::set<std::string> apart = {};  ///< operands [b,n] whose images may lie further apart than they have columns
  bool delays = false;               ///< for tests: random delays before each publication, wait and store
  /// No launch of the stream, or of the graph, writes the filter (the second operand): kernels that can may load it
  /// before the launches ahead of theirs have ended. What one writes is undefined behaviour that no check finds.
  bool filters_ahead = false;
};

/// What a kernel is wanted for: everything that is known before a device is.
struct Problem {
  Contraction contraction;  ///< as the caller described it
  Graph graph;              ///< as the caller wrote it
  CompileOptions options;
  plan::ConvTask task = Conv2d{};  ///< the contraction as the kernels see it
  plan::Forms forms;  ///< the graph after the passes, analysed, with its forms of stores and what Further asks of it
  std::set<std::string> apart = {};
  bool delays = false, filters_ahead = false;  ///< Further's

  const plan::Epilogue& epilogue() const { return forms.list.front(); }
};

/// Checks the contraction and the graph, runs the passes and analyses what they leave. Refuses, with the value at
/// fault, a graph that no kernel serves. Throws UserError for a contraction, graph or options that are wrong.
plan::Expected<Problem> analyse(const Contraction& contraction, const Graph& graph, const CompileOptions& options,
                                const Further& further = {});

/// A kernel that can be compiled (request()) and then bound (cuda::build).
struct Lowered {
  Problem problem;
  tuning::Chosen chosen;  ///< the plan, and where it comes from
  codegen::Kernel kernel;
  std::string arch;  ///< that it is compiled for: the device's

  const families::Plan& plan() const { return *chosen.plan; }
  const plan::Epilogue& epilogue() const { return problem.forms.list[plan().form]; }  ///< that the kernel computes
  jit::Request request() const;
};

/// The plan that CompileOptions::plan and plan_override fix, else a measured one unless CompileOptions::tuned is off,
/// else the cost model's. Refuses with the reasons where no plan serves the problem on this device. Throws UserError
/// for a plan's text that is wrong.
plan::Expected<tuning::Chosen> choose(const Problem& problem, const plan::Device& device);

/// By that plan.
plan::Expected<Lowered> lower(Problem problem, const plan::Device& device);

/// By a plan that was chosen already.
plan::Expected<Lowered> lower(Problem problem, tuning::Chosen chosen, const plan::Device& device);
plan::Expected<Lowered> lower(Problem problem, families::PlanPointer plan, const plan::Device& device);

/// All at once.
plan::Expected<Lowered> lower(const Contraction& contraction, const Graph& graph, const CompileOptions& options,
                              const plan::Device& device, const Further& further = {});

}  // namespace unisono::lower
