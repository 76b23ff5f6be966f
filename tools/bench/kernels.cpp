#include "bench/kernels.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "bench/ceilings.hpp"
#include "families/registry.hpp"
#include "gpu/kernels.hpp"
#include "runtime/cuda/backend.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

Variants variants_of(const Contraction& contraction, const Graph& graph, const std::string& fixed,
                     const plan::Device& device, int count) {
  CompileOptions options;
  options.device = Device::cuda;
  options.plan = fixed;
  options.device_index = gpu::chosen_device();
  Variants v{.problem = lower::analyse(contraction, graph, options).value(), .list = {}};
  const families::Workload workload{v.problem.task, v.problem.forms, device};
  const auto override = parse_plan(fixed);
  std::vector<families::PlanPointer> plans;
  if (count != 1)
    for (const families::Candidate& c : families::candidates(workload, override).value())
      if (c.is_legal() && (count == 0 || static_cast<int>(plans.size()) < count)) plans.push_back(c.plan);
  if (plans.empty()) plans.push_back(families::choose(workload, override).value());  // or throws the reasons
  for (const families::PlanPointer& p : plans) {
    lower::Lowered lowered = lower::lower(v.problem, p, device).value();
    jit::Request request = lowered.request();
    v.list.push_back({std::move(lowered), std::move(request)});
  }
  return v;
}

Variants variants_of(const Contraction& contraction, const Graph& graph, const std::vector<std::string>& plans,
                     const plan::Device& device) {
  Variants all = variants_of(contraction, graph, plans.at(0), device, 1);
  for (std::size_t i = 1; i < plans.size(); ++i) {
    Variants next = variants_of(contraction, graph, plans[i], device, 1);
    all.list.push_back(std::move(next.list.front()));
  }
  return all;
}

Compilation compile_all(const std::vector<const Variants*>& all, const plan::Device& device, int jobs) {
  std::vector<jit::Request> requests{gpu::kernels_request(device), copy_request(device)};
  std::set<std::string> seen;
  for (const Variants* v : all)
    for (const Variant& x : v->list)
      if (seen.insert(x.request.source).second) requests.push_back(x.request);
  Compilation result{.kernels = requests.size(), .unkept = 0, .failures = {}, .warnings = {}};
  const auto progress = [](std::size_t done, std::size_t total, const std::string& title) {
    if (done % 10 == 0 || done == total) fmt::print(stderr, "compiled {} of {}: {}\n", done, total, title);
  };
  const auto look_at = [&](const jit::Binary& binary) { result.unkept += binary.entry.empty() ? 1 : 0; };
  jit::Settings settings;
  settings.jobs = jobs;
  settings.warn = [&](const std::string& text) {
    fmt::print(stderr, "unisono: {}\n", text);
    result.warnings.push_back(text);
  };
  jit::Jit compiler(settings);
  try {
    for (const jit::Binary& binary : compiler.compile(requests, progress)) look_at(binary);
    return result;
  } catch (const CompileError&) {  // the first of them; who else failed is found one by one, the rest is in the cache
  }
  for (const jit::Request& r : requests) {
    try {
      look_at(compiler.compile(r));
    } catch (const CompileError& error) {
      result.failures.push_back(r.title + ": " + error.what());
    }
  }
  return result;
}

Built build(const Variant& variant) {
  jit::Binary binary = gpu::compiler().compile(variant.request);
  const jit::Resources resources = binary.resources;
  return {Executable(cuda::build(variant.lowered, std::move(binary))), resources};
}

}  // namespace unisono::bench
