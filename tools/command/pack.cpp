// `unisono pack`: kernels compiled ahead, as a folder that machines without a compiler read.
#include <fmt/format.h>

#include <filesystem>

#include "command/commands.hpp"
#include "command/json.hpp"
#include "command/kernel_subjects.hpp"
#include "command/output.hpp"
#include "command/progress.hpp"
#include "command/quantities.hpp"
#include "jit/maintenance.hpp"
#include "lower/lower.hpp"
#include "network/cuda/plan.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

using Requests = std::vector<jit::Request>;

jit::Request request_of(const Contraction& contraction, const Graph& graph, const std::string& plan) {
  CompileOptions options;
  options.device = Device::cuda;
  options.plan = plan;
  return lower::lower(contraction, graph, options, plan::Device{}).request();
}

Requests requests_of(const PackOptions& options, const std::string& subject) {
  Requests all;
  const KernelVisitor visitor{
      .network =
          [&](const Network& network, const NetworkOptions& given, const Shapes& shapes) {
            for (jit::Request& r : network::gpu::requests(network, given, shapes, plan::Device{}))
              all.push_back(std::move(r));
          },
      .kernel = [&](const Contraction& contraction, const Graph& graph,
                    const std::string& plan) { all.push_back(request_of(contraction, graph, plan)); }};
  visit_subject(
      subject,
      {options.dims, options.shapes, options.precision, options.conv, options.gemm, options.plan, options.functions},
      visitor);
  return all;
}

}  // namespace

int pack(const PackOptions& options) {
  Progress progress;
  progress.step("planning");
  Requests requests;
  for (const std::string& subject : options.subjects)
    for (jit::Request& r : requests_of(options, subject)) requests.push_back(std::move(r));
  jit::Settings settings;
  settings.cache = std::filesystem::absolute(options.out);
  settings.jobs = options.jobs;
  settings.installed_packs = false;
  progress.step(fmt::format("compiling into {}", options.out.string()));
  jit::Jit compiler(settings);
  const auto binaries = compiler.compile(
      requests, [&](std::size_t done, std::size_t total, const std::string&) { progress.done(done, total); });
  jit::remove_workshops(settings.cache);
  const auto entries = jit::verify_entries(settings.cache);
  progress.finish();
  std::size_t compiled = 0, bytes = 0;
  for (const jit::Binary& b : binaries) compiled += b.cached ? 0 : 1;
  for (const jit::Listed& e : entries) {
    if (!e.problem.empty())
      throw UserError(fmt::format("{} is broken: {}; `unisono cache prune --folder {}` removes it, then pack again",
                                  e.folder.string(), e.problem, settings.cache.string()));
    bytes += e.bytes;
  }
  if (options.json) {
    print(dump(nlohmann::json{{"folder", settings.cache.string()},
                              {"requested", requests.size()},
                              {"compiled", compiled},
                              {"entries", entries.size()},
                              {"bytes", bytes}}));
    return 0;
  }
  print(fmt::format("{} kernels asked for, {} compiled; {} in the pack, {}, in {}\n", requests.size(), compiled,
                    entries.size(), size_text(bytes), settings.cache.string()));
  print(fmt::format("UNISONO_PACKS={} lets programs use it; cmake -DUNISONO_PACK={} installs it with the library\n",
                    settings.cache.string(), settings.cache.string()));
  return 0;
}

}  // namespace unisono::command
