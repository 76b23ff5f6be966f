#include "pack.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "jit/maintenance.hpp"
#include "lower/lower.hpp"
#include "network/cuda/run/plan.hpp"
#include "runtime/common/names.hpp"
#include "unisono/error.hpp"

namespace unisono {

PackReport pack_requests(const std::vector<jit::Request>& requests, const std::filesystem::path& folder,
                         const PackOptions& how) {
  jit::Settings settings;
  settings.cache = std::filesystem::absolute(folder);
  settings.jobs = how.jobs;
  settings.installed_packs = false;
  std::vector<std::string> warnings;
  settings.warn = [&](const std::string& text) { warnings.push_back(text); };
  PackReport report{.folder = settings.cache, .requested = requests.size()};
  jit::Jit compiler(settings);
  const auto binaries = compiler.compile(requests, [&](std::size_t done, std::size_t total, const std::string&) {
    if (how.progress) how.progress(done, total);
  });
  for (const jit::Binary& b : binaries) report.compiled += b.cached ? 0 : 1;
  jit::remove_workshops(settings.cache);
  const auto missing = std::count_if(binaries.begin(), binaries.end(), [](const auto& b) { return b.entry.empty(); });
  if (missing > 0)
    throw UserError(fmt::format("{} of {} kernels could not be kept in {}: {}", missing, binaries.size(),
                                settings.cache.string(), fmt::join(warnings, "; ")));
  for (const std::string& text : warnings) fmt::print(stderr, "unisono: {}\n", text);
  for (const jit::Listed& e : jit::verify_entries(settings.cache)) {
    if (!e.problem.empty())
      throw UserError(fmt::format("{} is broken: {}; `unisono cache prune --folder {}` removes it, then pack again",
                                  e.folder.string(), e.problem, settings.cache.string()));
    ++report.entries;
    report.bytes += e.bytes;
  }
  return report;
}

PackReport pack(const Contraction& contraction, const Graph& graph, const CompileOptions& options,
                const std::filesystem::path& folder, const PackOptions& how) {
  extents(contraction);
  verify(graph);
  runtime::check_storage(options, runtime::operand_names(graph));
  return pack_requests({lower::lower(contraction, graph, options, plan::Device{}).value().request()}, folder, how);
}

PackReport pack(const Network& network, const NetworkOptions& options,
                const std::map<std::string, std::vector<std::int64_t>>& inputs, const std::filesystem::path& folder,
                const PackOptions& how) {
  NetworkOptions on_gpu = options;
  on_gpu.device = Device::cuda;
  return pack_requests(network::gpu::requests(network, on_gpu, inputs, plan::Device{}), folder, how);
}

}  // namespace unisono
