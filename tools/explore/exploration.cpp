#include "explore/exploration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "explore/dataflow.hpp"
#include "explore/kernels.hpp"
#include "explore/launches.hpp"
#include "explore/roofline.hpp"
#include "network/cuda/run/plan.hpp"
#include "network/joined_convolutions.hpp"
#include "network/kernel_numbers.hpp"
#include "passes/log.hpp"
#include "passes/split_stores.hpp"
#include "runtime/cuda/backend.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::explore {
namespace {

using nlohmann::json;

/// The GPU of the options, or an H200 where there is none.
plan::Device device_at(int index) {
  try {
    return cuda::open_device(index);
  } catch (const DeviceError&) {
    return {};
  } catch (const Unsupported&) {
    return {};
  }
}

std::string_view name_of(RegionReport::Kind kind) {
  switch (kind) {
    case RegionReport::Kind::contraction: return "contraction";
    case RegionReport::Kind::epilogue: return "epilogue";
    case RegionReport::Kind::single: return "single";
    case RegionReport::Kind::free: return "free";
  }
  return "";
}

json passes_of(const Graph& graph) {
  json passes = json::array();
  for (const passes::LogEntry& p : passes::record_pipeline(passes::split_stores(graph).graph).passes)
    passes.push_back({{"pass", p.pass},
                      {"purpose", p.purpose},
                      {"exact", p.exact},
                      {"changed", p.changed},
                      {"text", p.changed ? p.text : std::string()}});
  return {{"written", print(graph)}, {"passes", std::move(passes)}};
}

/// Epilogues by their text, each once.
class Epilogues {
 public:
  json of(const std::string& text) {
    if (text.empty()) return nullptr;
    const auto [at, is_new] = known_.emplace(text, all_.size());
    if (is_new) all_.push_back(passes_of(parse(text)));
    return at->second;
  }
  json take() { return std::move(all_); }

 private:
  std::map<std::string, std::size_t> known_;
  json all_ = json::array();
};

json regions_of(const FusionReport& report, Epilogues& epilogues) {
  const network::KernelNumbers numbers(report);
  json regions = json::array();
  for (const RegionReport& r : report.regions)
    regions.push_back({{"kernel", numbers.of(r.name)},
                       {"kind", name_of(r.kind)},
                       {"name", r.name},
                       {"contraction", r.contraction},
                       {"operators", r.operators},
                       {"outputs", r.outputs},
                       {"note", r.note},
                       {"epilogue", epilogues.of(r.epilogue)}});
  return regions;
}

json json_of(const Launch& l, int number) {
  json object = {{"kernel", number},        {"name", l.report.name},         {"what", l.report.what},
                 {"how", l.report.how},     {"kind", to_string(l.kind)},     {"flop", l.report.flop},
                 {"bytes", l.report.bytes}, {"floor_us", l.report.floor_us}, {"predicted_us", l.report.predicted_us}};
  if (l.measured_us) object["measured_us"] = *l.measured_us;
  return object;
}

double rounded(double x) { return std::round(10 * x) / 10; }

void add_picture(json& data, const Dataflow& flow) {
  json boxes = json::array(), edges = json::array();
  for (std::size_t i = 0; i < flow.boxes.size(); ++i) {
    const figure::Rect& at = flow.layout.nodes[i];
    json box = {{"at", {rounded(at.x), rounded(at.y), rounded(at.width), rounded(at.height)}},
                {"lines", flow.boxes[i].lines}};
    if (flow.boxes[i].launch != Box::no_launch) box["launch"] = flow.boxes[i].launch;
    boxes.push_back(std::move(box));
  }
  for (std::size_t i = 0; i < flow.edges.size(); ++i) {
    json points = json::array();
    for (const figure::Point& p : flow.layout.edges[i]) points.push_back(rounded(p.x)), points.push_back(rounded(p.y));
    edges.push_back({{"from", flow.edges[i].from}, {"to", flow.edges[i].to}, {"points", std::move(points)}});
  }
  data["boxes"] = std::move(boxes), data["edges"] = std::move(edges);
  data["width"] = rounded(flow.layout.width), data["height"] = rounded(flow.layout.height);
  data["complete"] = flow.complete;
}

/// What is known of the kernels behind the launches: texts, plans, registers.
class KernelDetails {
 public:
  explicit KernelDetails(plan::Device device) : device_(std::move(device)) {}

  void add_source(json& launch, const jit::Request& request) {
    launch["source"] = sources_.of(request.source);
    const json resources = compiled_.find(request);
    if (!resources.is_null()) launch["compiled"] = resources;
  }

  void add_plan(json& launch, const lower::Problem& problem, const std::string& how) {
    const std::string key = fmt::format("{}\n{}\n{}", to_string(problem.contraction), print(problem.graph), how);
    const auto [at, is_new] = known_.emplace(key, plans_.size());
    if (is_new) plans_.push_back(describe_kernel(problem, device_, how));
    launch["plan"] = at->second;
  }

  void finish(json& data) { data["sources"] = sources_.json(), data["plans"] = std::move(plans_); }

 private:
  plan::Device device_;
  Texts sources_;
  Compiled compiled_;
  std::map<std::string, std::size_t> known_;
  json plans_ = json::array();
};

// Launches that a plan is known of have a problem, all that Unisono compiles a request, each in the order of the
// launches
void add_kernels(json& data, const Network& network, const NetworkOptions& options,
                 const std::map<std::string, std::vector<std::int64_t>>& shapes, const plan::Device& device,
                 const std::vector<Launch>& launches) {
  const std::vector<lower::Problem> problems = network::gpu::tuning_problems(network, options, shapes, device);
  const std::vector<jit::Request> requests = network::gpu::requests(network, options, shapes, device);
  const auto others = [](const Launch& l) {
    return l.report.on_host || l.report.how.find("cuDNN") != std::string::npos;
  };
  const auto own = static_cast<std::size_t>(std::ranges::count_if(launches, std::not_fn(others)));
  const bool has_sources = own == requests.size();
  KernelDetails details(device);
  std::size_t problem = 0, request = 0;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    json& launch = data["launches"][i];
    if (has_sources && !others(launches[i])) details.add_source(launch, requests[request++]);
    if (launches[i].report.predicted_us > 0 && problem < problems.size())
      details.add_plan(launch, problems[problem++], launches[i].report.how);
  }
  details.finish(data);
}

network::FusedNetwork fused_of(const Network& network, const NetworkOptions& options) {
  if (options.device == Device::cuda) return network::gpu::fuse_for_gpu(network, options);
  return network::fuse(options.fuse ? network::join_convolutions(network) : network, options.fuse);
}

json launches_json(const std::vector<Launch>& launches, const FusionReport& report, const std::vector<Spread>& spread) {
  const network::KernelNumbers numbers(report);
  json all = json::array();
  for (const Launch& l : launches) {
    json object = json_of(l, numbers.of(l.report.name));
    if (l.step && !spread.empty()) {
      const Spread& s = spread.at(*l.step);
      object["spread_us"] = {1000 * s.fastest_ms, 1000 * s.p90_ms, 1000 * s.p99_ms};
    }
    all.push_back(std::move(object));
  }
  return all;
}

/// Plans are for tensors that lie row-major. A run whose tensors lie as kernels read and write them has fewer copies.
void drop_what_did_not_run(json& data, std::vector<Launch>& launches, std::size_t ran) {
  const auto has_time = [](const Launch& l) { return l.measured_us.has_value(); };
  if (static_cast<std::size_t>(std::ranges::count_if(launches, has_time)) != ran) return;
  json kept = json::array();
  for (std::size_t i = 0; i < launches.size(); ++i)
    if (has_time(launches[i])) kept.push_back(std::move(data["launches"][i]));
  data["launches"] = std::move(kept);
  std::erase_if(launches, std::not_fn(has_time));
}

}  // namespace

json laid_out(json data) {
  Dataflow flow;
  for (const json& box : data.at("boxes"))
    flow.boxes.push_back({.launch = box.value("launch", Box::no_launch), .lines = box.at("lines")});
  for (const json& edge : data.at("edges")) {
    const figure::LayeredGraph::Edge ends{edge.at("from"), edge.at("to")};
    if (ends.from >= ends.to || ends.to >= flow.boxes.size())
      throw UserError(fmt::format("an edge from box {} to box {} of {}; expected one that leads forward", ends.from,
                                  ends.to, flow.boxes.size()));
    flow.edges.push_back(ends);
  }
  lay_out(flow);
  add_picture(data, flow);
  return data;
}

json explore(const Network& network, const std::string& title, const NetworkOptions& options,
             const std::map<std::string, std::vector<std::int64_t>>& shapes, const Measured& measured,
             const std::optional<plan::Device>& gpu) {
  const network::FusedNetwork fused = fused_of(network, options);
  json data = {{"title", title}, {"kind", "network"}, {"shapes", shapes}, {"operators", network.operators.size()}};
  data["measured"] = !measured.profile.empty(), data["run_ms"] = measured.run_ms, data["runs"] = measured.runs;
  FusionReport report;
  std::vector<Launch> launches;
  if (options.device == Device::cuda) {
    DeviceReport on_gpu = network::gpu::planned_report(network, options, shapes, gpu).report;
    launches = launches_of(on_gpu, measured.profile);
    report = std::move(on_gpu.fusion);
    data["device"] = on_gpu.device, data["device_note"] = on_gpu.device_note;
    data["precision"] = to_string(options.precision), data["decisions"] = on_gpu.decisions;
  } else {
    report = network::report(fused, network.operators.size());
    launches = launches_of(report, measured.profile);
    data["device"] = "the CPU", data["device_note"] = "";
  }
  Epilogues epilogues;
  data["launches"] = launches_json(launches, report, measured.spread);
  data["regions"] = regions_of(report, epilogues);
  data["epilogues"] = epilogues.take();
  if (options.device == Device::cuda)
    add_kernels(data, network, options, shapes, gpu ? *gpu : device_at(options.device_index), launches);
  if (!measured.profile.empty()) drop_what_did_not_run(data, launches, measured.profile.size());
  add_picture(data, dataflow_of(fused, report, launches));
  return data;
}

json explore(const Graph& graph, const std::optional<Contraction>& contraction, const CompileOptions& options,
             const std::optional<plan::Device>& gpu) {
  json data = {{"title", "an epilogue"}, {"kind", "epilogue"}, {"measured", false}, {"device_note", ""}};
  const plan::Device device = gpu ? *gpu : device_at(options.device_index);
  Launch launch;
  launch.kind = Kind::contraction;
  launch.report.name = "epilogue", launch.report.what = "an epilogue over any contraction";
  RegionReport region;
  region.kind = RegionReport::Kind::contraction, region.name = "epilogue", region.epilogue = print(graph);
  std::optional<lower::Lowered> lowered;
  if (contraction) {
    lowered = lower::lower(*contraction, graph, options, device).value();
    launch.report.what = region.contraction = to_string(*contraction);
    launch.report.how = families::describe(lowered->plan());
    launch.report.flop = flop(*contraction), launch.report.predicted_us = lowered->plan().predicted_us;
    const Roofline peaks = roofline_of(*contraction, graph, device);
    launch.report.bytes = peaks.bytes, launch.report.floor_us = peaks.us;
    data["title"] = "an epilogue over " + launch.report.what;
  }
  data["device"] = contraction ? device.name : "any device";
  const FusionReport report{.regions = {region}, .operators = 1, .kernels = 1};
  Epilogues epilogues;
  data["launches"] = launches_json({launch}, report, {});
  data["regions"] = regions_of(report, epilogues);
  data["epilogues"] = epilogues.take();
  add_picture(data, in_a_row({launch}));
  KernelDetails details(device);
  if (lowered) {
    details.add_source(data["launches"][0], lowered->request());
    details.add_plan(data["launches"][0], lowered->problem, launch.report.how);
  }
  details.finish(data);
  return data;
}

}  // namespace unisono::explore
