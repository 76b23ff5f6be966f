#include "command/run_epilogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "command/assembly.hpp"
#include "command/json.hpp"
#include "command/kernel_check.hpp"
#include "command/kernel_problem.hpp"
#include "command/kernel_report.hpp"
#include "command/kernel_run.hpp"
#include "command/model.hpp"
#include "command/output.hpp"
#include "command/progress.hpp"
#include "command/result_files.hpp"
#include "command/subject.hpp"
#include "lower/lower.hpp"
#include "runtime/cuda/backend.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

/// Throws UserError that names the options that are for models.
void refuse_options_of_models(const RunOptions& o) {
  const std::pair<bool, const char*> all[] = {{!o.images.empty(), "--image"},
                                              {o.batch, "--batch"},
                                              {!o.mean.empty(), "--mean"},
                                              {!o.deviation.empty(), "--std"},
                                              {!o.dims.empty(), "--dim"},
                                              {!o.shapes.empty(), "--shape"},
                                              {o.memory_limit.has_value(), "--memory-limit"},
                                              {o.precision_given, "--precision"},
                                              {o.strict, "--strict"},
                                              {o.attention != AttentionKernels::automatic, "--attention"},
                                              {o.profile, "--profile"},
                                              {!o.trace.empty(), "--trace"},
                                              {!o.svg.empty(), "--svg"},
                                              {!o.html.empty(), "--html"}};
  std::string given;
  for (const auto& [is_given, name] : all)
    if (is_given) given += (given.empty() ? "" : ", ") + std::string(name);
  if (!given.empty())
    throw UserError(given +
                    ": for models; an epilogue takes --conv or --gemm, --input or --random, --seed, --repeat, --check, "
                    "--device, --plan, --function, --threads, --out, --asm and --json");
}

CompileOptions compile_options(const RunOptions& options, const KernelProblem& problem) {
  CompileOptions compile;
  compile.device = options.cuda ? Device::cuda : Device::cpu;
  compile.threads = options.threads;
  compile.plan = options.plan;
  for (auto i = problem.inputs.begin() + factor_count(problem.contraction); i != problem.inputs.end(); ++i)
    compile.storage[i->name] = i->dtype;
  return compile;
}

}  // namespace

bool is_epilogue(const RunOptions& options) {
  const bool shaped =
      !options.conv.empty() || !options.gemm.empty() || !options.plan.empty() || !options.functions.empty();
  const std::string subject = options.model.string();
  if (is_model(options.model)) {
    if (shaped)
      throw UserError(fmt::format(
          "--conv, --gemm, --plan and --function are for an epilogue's text, and '{}' is a model or a folder",
          subject));
    return false;
  }
  if (!shaped && !is_text(subject)) return false;
  refuse_options_of_models(options);
  if (!options.plan.empty() && !options.cuda)
    throw UserError("--plan needs --device cuda: only kernels of a GPU have plans");
  if (!options.assembly.empty() && !options.cuda) throw UserError("--asm needs --device cuda: SASS is code of a GPU");
  if (options.check && !options.functions.empty())
    throw Unsupported(
        "--check with --function: the function is CUDA C++ alone, and the float64 reference runs on the CPU; leave "
        "--check out, or compare by a program that gives UserFunction::cpu");
  return true;
}

int run_epilogue(const RunOptions& options) {
  Progress progress;
  progress.step("reading the inputs");
  KernelProblem problem = read_kernel_problem(options);
  progress.step("compiling the kernel");
  const CompileOptions how = compile_options(options, problem);
  const Executable kernel = compile(problem.contraction, problem.graph, how);
  const Targets targets = targets_of(options, problem.outputs.size());
  progress.step("running the kernel");
  KernelReport report{options, problem, kernel.describe(), {}, {}, {}};
  report.timing = run_kernel(kernel, problem, options.cuda, options.repeat);
  if (options.check) {
    progress.step("computing the float64 reference");
    report.agreements = check_kernel(problem, how);
  }
  report.files = write_arrays(problem.outputs, targets);
  if (!options.assembly.empty()) {
    const plan::Device device = cuda::open_device(how.device_index);
    write_assembly(options.assembly,
                   {{lower::lower(problem.contraction, problem.graph, how, device).value().request(), {}}});
    report.files.push_back(options.assembly.string());
  }
  progress.finish();
  for (const std::string& note : problem.notes) warn("unisono: " + note);
  print(options.json ? dump(to_json(report)) : to_text(report));
  const bool right = std::all_of(report.agreements.begin(), report.agreements.end(),
                                 [](const auto& named) { return is_right(named.second); });
  return right ? 0 : 1;
}

}  // namespace unisono::command
