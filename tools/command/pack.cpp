// `unisono pack`: kernels compiled ahead, as a folder that machines without a compiler read.
#include <fmt/format.h>

#include <filesystem>

#include "command/commands.hpp"
#include "command/json.hpp"
#include "command/kernel_subjects.hpp"
#include "command/output.hpp"
#include "command/progress.hpp"
#include "command/quantities.hpp"
#include "lower/lower.hpp"
#include "network/cuda/run/plan.hpp"
#include "pack.hpp"

namespace unisono::command {
namespace {

using Requests = std::vector<jit::Request>;

jit::Request request_of(const Contraction& contraction, const Graph& graph, const std::string& plan,
                        const plan::Device& device) {
  CompileOptions options;
  options.device = Device::cuda;
  options.plan = plan;
  return lower::lower(contraction, graph, options, device).value().request();
}

Requests requests_of(const PackOptions& options, const std::string& subject, const plan::Device& device) {
  Requests all;
  const KernelVisitor visitor{
      .network =
          [&](const Network& network, const NetworkOptions& given, const Shapes& shapes) {
            for (jit::Request& r : network::gpu::requests(network, given, shapes, device)) all.push_back(std::move(r));
          },
      .kernel = [&](const Contraction& contraction, const Graph& graph,
                    const std::string& plan) { all.push_back(request_of(contraction, graph, plan, device)); }};
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
  const std::vector<plan::Device> h200(1);
  for (const plan::Device& device : options.gpus.empty() ? h200 : options.gpus)
    for (const std::string& subject : options.subjects)
      for (jit::Request& r : requests_of(options, subject, device)) requests.push_back(std::move(r));
  progress.step(fmt::format("compiling into {}", options.out.string()));
  const PackReport report = pack_requests(
      requests, options.out,
      {.jobs = options.jobs, .progress = [&](std::size_t done, std::size_t total) { progress.done(done, total); }});
  progress.finish();
  if (options.json) {
    print(dump(nlohmann::json{{"folder", report.folder.string()},
                              {"requested", report.requested},
                              {"compiled", report.compiled},
                              {"entries", report.entries},
                              {"bytes", report.bytes}}));
    return 0;
  }
  print(fmt::format("{} kernels asked for, {} compiled; {} in the pack, {}, in {}\n", report.requested, report.compiled,
                    report.entries, size_text(report.bytes), report.folder.string()));
  print(fmt::format("UNISONO_PACKS={} lets programs use it; cmake -DUNISONO_PACK={} installs it with the library\n",
                    report.folder.string(), report.folder.string()));
  return 0;
}

}  // namespace unisono::command
