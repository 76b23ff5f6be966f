#include "command/profile_files.hpp"

#include <fmt/format.h>

#include "command/assembly.hpp"
#include "command/network_diagram.hpp"
#include "command/trace.hpp"
#include "explore/exploration.hpp"
#include "media/file.hpp"
#include "network/cuda/run/plan.hpp"

namespace unisono::command {
namespace {

void write_diagram(const RunOptions& options, const NetworkOptions& network, const ProfiledRun& run,
                   const std::string& device) {
  double us = 0;
  for (const StepTime& s : run.profile) us += 1000 * s.milliseconds;
  const std::string title =
      fmt::format("{} on {}: {} steps, {:.0f} us one by one", run.model.name, device, run.profile.size(), us);
  media::write_file(options.svg, figure::to_svg(diagram_of(run.model.network, title, network, notes_of(run.profile))));
}

}  // namespace

bool wants_profile(const RunOptions& options) {
  return options.profile || !options.trace.empty() || !options.svg.empty() || !options.html.empty();
}

Shapes shapes_of(const Tensors& inputs) {
  Shapes shapes;
  for (const auto& [name, array] : inputs) shapes[name] = array.shape;
  return shapes;
}

std::vector<std::string> write_profile(const RunOptions& options, const NetworkOptions& network,
                                       const ProfiledRun& run) {
  const std::string device = options.cuda ? "a GPU" : "the CPU";
  std::vector<std::string> files;
  if (!options.trace.empty()) {
    write_trace(options.trace, run.model.name, device, run.profile, run.fusion);
    files.push_back(options.trace.string());
  }
  if (!options.svg.empty()) {
    write_diagram(options, network, run, device);
    files.push_back(options.svg.string());
  }
  if (!options.html.empty()) {
    explore::Measured measured{run.profile, run.timing.median_ms, run.timing.runs};
    for (const Timing& t : run.spread) measured.spread.push_back({t.fastest_ms, t.p90_ms, t.p99_ms});
    const nlohmann::json page = explore::explore(run.model.network, run.model.name, network, run.shapes, measured);
    media::write_file(options.html, explore::page_of(page));
    files.push_back(options.html.string());
  }
  if (!options.assembly.empty()) {
    const auto planned = network::gpu::planned_report(run.model.network, network, run.shapes);
    write_assembly(
        options.assembly,
        with_launches(network::gpu::requests(run.model.network, network, run.shapes, planned.device), planned.report));
    files.push_back(options.assembly.string());
  }
  return files;
}

}  // namespace unisono::command
