// `unisono emit`: a kernel as source that somebody else's build compiles.
#include <fmt/format.h>

#include "command/commands.hpp"
#include "command/kernel_subjects.hpp"
#include "command/output.hpp"
#include "families/interface/family.hpp"
#include "ir/names.hpp"
#include "lower/lower.hpp"
#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

families::Standalone files_of(const Contraction& contraction, const Graph& graph, const std::string& plan,
                              const std::string& name) {
  CompileOptions options;
  options.device = Device::cuda;
  options.plan = plan;
  const lower::Lowered lowered = lower::lower(contraction, graph, options, plan::Device{}).value();
  const families::Launched what{lowered.problem.task, lowered.problem.epilogue, lowered.kernel};
  return lowered.plan().family->standalone(lowered.plan(), what, name).value();
}

}  // namespace

int emit(const EmitOptions& options) {
  ir::check_identifier(options.name, "the name of a kernel (--name)");
  families::Standalone files;
  const KernelVisitor visitor{
      .network =
          [&](const Network&, const NetworkOptions&, const Shapes&) {
            throw UserError("emit writes the kernel of one epilogue, and " + options.subject + " is a model");
          },
      .kernel = [&](const Contraction& contraction, const Graph& graph,
                    const std::string& plan) { files = files_of(contraction, graph, plan, options.name); }};
  visit_subject(options.subject, {{}, {}, DType::bf16, options.conv, options.gemm, options.plan, options.functions},
                visitor);
  support::make_folders(options.out);
  const auto source = options.out / (options.name + ".cu"), header = options.out / (options.name + ".h");
  support::write_file(source, files.source);
  support::write_file(header, files.header);
  print(fmt::format("{}\n{}\n", source.string(), header.string()));
  return 0;
}

}  // namespace unisono::command
