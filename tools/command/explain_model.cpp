#include "command/explain_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "command/assembly.hpp"
#include "command/explain_graph.hpp"
#include "command/fusion_report.hpp"
#include "command/json.hpp"
#include "command/model.hpp"
#include "command/network_diagram.hpp"
#include "command/output.hpp"
#include "command/plan_legend.hpp"
#include "command/progress.hpp"
#include "explore/exploration.hpp"
#include "media/file.hpp"
#include "network/cuda/run/plan.hpp"
#include "network/kernel_numbers.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::command {
namespace {

/// By number of its kernel (from 1 on) or by name.
const RegionReport& find_region(const FusionReport& report, const std::string& wanted) {
  int number = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  const bool numeric = error == std::errc{} && end == wanted.data() + wanted.size() && number > 0;
  const network::KernelNumbers numbers(report);
  for (const RegionReport& region : report.regions)
    if (region.name == wanted || (numeric && numbers.of(region.name) == number)) return region;
  throw UserError(fmt::format("--region {}: expected a number of 1 to {}, or the name of a tensor that a region makes",
                              wanted, report.kernels));
}

int explain_region(const ExplainOptions& options, const FusionReport& report) {
  if (!options.html.empty()) throw UserError("--html shows all regions of a model; leave --region out");
  const RegionReport& region = find_region(report, options.region);
  if (region.epilogue.empty()) {
    throw UserError(fmt::format("region '{}' has no epilogue: {}{}{}", region.name, region.contraction,
                                region.note.empty() ? "" : "; ", region.note));
  }
  const GraphExplanation explanation = explain_graph(parse(region.epilogue));
  write_drawings(explanation, options.dot, options.svg);
  print(options.json ? to_json(explanation) : fmt::format("{}\n{}", region.contraction, to_text(explanation)));
  return 0;
}

std::string shapes_text(const Network& network, const std::vector<TensorId>& ids) {
  std::vector<std::string> texts;
  texts.reserve(ids.size());
  for (const TensorId id : ids) texts.push_back(network[id].name + " " + to_string(network[id].shape));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string shapes_text(const Shapes& shapes) {
  std::vector<std::string> texts;
  for (const auto& [name, shape] : shapes) texts.push_back(fmt::format("{} ({})", name, fmt::join(shape, ",")));
  return fmt::format("{}", fmt::join(texts, ", "));
}

nlohmann::json launches_json(const DeviceReport& report) {
  nlohmann::json launches = nlohmann::json::array();
  const network::KernelNumbers numbers(report.fusion);
  for (const LaunchReport& l : report.launches)
    launches.push_back({{"kernel", number_or_null(numbers.of(l.name))},
                        {"name", l.name},
                        {"what", l.what},
                        {"how", l.how},
                        {"flop", l.flop},
                        {"bytes", l.bytes},
                        {"floor_us", l.floor_us},
                        {"predicted_us", l.predicted_us},
                        {"on_host", l.on_host}});
  return {{"device", report.device},
          {"device_note", report.device_note},
          {"launches", launches},
          {"decisions", report.decisions}};
}

void draw(const ExplainOptions& options, const figure::BoxDiagram& diagram) {
  if (!options.svg.empty()) media::write_file(options.svg, figure::to_svg(diagram));
  if (!options.dot.empty()) media::write_file(options.dot, figure::to_dot(diagram));
}

/// The plans of those kernels that have one.
std::vector<std::string> plans_of(const DeviceReport& report) {
  std::vector<std::string> plans;
  for (const LaunchReport& l : report.launches)
    if (l.predicted_us > 0) plans.push_back(l.how);
  return plans;
}

/// Empty if nothing was left out.
std::string left_out_text(const Model& model) {
  if (model.left_out.empty()) return "";
  std::string text =
      fmt::format("left out: {} operator{}\n", model.left_out.size(), model.left_out.size() == 1 ? "" : "s");
  for (const network::LeftOut& left : model.left_out)
    text += fmt::format("  {} '{}': {}\n", left.op_type, left.name, left.reason);
  return text + "what they read is an output here, what they make an input if its shape is known\n\n";
}

nlohmann::json left_out_json(const Model& model) {
  nlohmann::json all = nlohmann::json::array();
  for (const network::LeftOut& left : model.left_out)
    all.push_back(
        {{"operator", left.op_type}, {"name", left.name}, {"reason", left.reason}, {"unknown", left.unknown}});
  return all;
}

void write_page(const ExplainOptions& options, const Model& model, nlohmann::json page) {
  page["left_out"] = left_out_json(model);
  media::write_file(options.html, explore::page_of(page));
}

std::string text_of(const ExplainOptions& options, const Model& model, const Shapes& shapes,
                    const DeviceReport& report) {
  if (!options.json)
    return fmt::format(
        "{}, tensors between kernels in {}\n\n{}{}\n{}\nwhat was decided for each region\n{}\nwhat was fused\n{}\n"
        "memory for {}\n{}",
        model.name, to_string(options.precision), left_out_text(model), to_string(report), legend_of(plans_of(report)),
        report.decisions, to_string(report.fusion), shapes_text(shapes), memory_text(report.memory));
  nlohmann::json object = command::to_json(report.fusion);
  object["kind"] = "network";
  object["name"] = model.name;
  object["file"] = model.file.string();
  object["shapes"] = shapes;
  object["memory"] = command::to_json(report.memory);
  object["left_out"] = left_out_json(model);
  object["cuda"] = launches_json(report);
  object["precision"] = to_string(options.precision);
  return dump(object);
}

/// --svg, --dot and --html.
void draw_launches(const ExplainOptions& options, const Model& model, const Shapes& shapes,
                   const NetworkOptions& on_gpu, const DeviceReport& report) {
  double predicted_us = 0;
  for (const LaunchReport& l : report.launches) predicted_us += l.predicted_us;
  draw(options, diagram_of(model.network,
                           fmt::format("{} on {}: {} launches, {:.0f} us predicted for its convolutions and products",
                                       model.name, report.device, report.launches.size(), predicted_us),
                           on_gpu, notes_of(report)));
  if (!options.html.empty())
    write_page(options, model, explore::explore(model.network, model.name, on_gpu, shapes, {}, options.gpu));
}

/// The launches of a GPU, and what the fuser did on the way to them.
int explain_on_gpu(const ExplainOptions& options, const Model& model, const Shapes& shapes, Progress& progress) {
  progress.step("planning for the GPU");
  NetworkOptions on_gpu;
  on_gpu.device = Device::cuda;
  on_gpu.precision = options.precision;
  on_gpu.strict = options.strict;
  on_gpu.attention = options.attention;
  auto [report, constants, device] = network::gpu::planned_report(model.network, on_gpu, shapes, options.gpu);
  report.memory.constants = constants;
  if (!options.assembly.empty()) {
    progress.step("compiling the kernels");
    write_assembly(options.assembly,
                   with_launches(network::gpu::requests(model.network, on_gpu, shapes, device), report));
  }
  progress.finish();
  if (!options.region.empty()) return explain_region(options, report.fusion);
  draw_launches(options, model, shapes, on_gpu, report);
  print(text_of(options, model, shapes, report));
  return 0;
}

}  // namespace

int explain_model(const ExplainOptions& options) {
  Progress progress;
  progress.step("reading the model");
  const Model model = load_model_partly(options.subject, limits_of(options.memory_limit), options.shapes);
  const Shapes shapes = input_shapes(model.network, dims_of(model.network, options.dims, options.shapes), 64);
  if (options.cuda) return explain_on_gpu(options, model, shapes, progress);
  const FusionReport report = explain(model.network);
  if (!options.region.empty()) {
    progress.finish();
    return explain_region(options, report);
  }

  progress.step("compiling the model");
  const MemoryReport memory = compile(model.network).memory(shapes);
  progress.finish();
  const std::string title = fmt::format("{}: {} operators in {} kernels", model.name, report.operators, report.kernels);
  if (!options.svg.empty() || !options.dot.empty()) draw(options, diagram_of(model.network, title, {}));
  if (!options.html.empty()) write_page(options, model, explore::explore(model.network, model.name, {}, shapes));
  if (options.json) {
    nlohmann::json object = to_json(report);
    object["kind"] = "network";
    object["name"] = model.name;
    object["file"] = model.file.string();
    object["shapes"] = shapes;
    object["memory"] = to_json(memory);
    object["left_out"] = left_out_json(model);
    print(dump(object));
    return 0;
  }
  print(fmt::format("{}\n  inputs   {}\n  outputs  {}\n\n{}", model.name,
                    shapes_text(model.network, model.network.inputs), shapes_text(model.network, model.network.outputs),
                    left_out_text(model)));
  print(to_string(report));
  print(fmt::format("\nmemory for {}\n{}", shapes_text(shapes), memory_text(memory)));
  return 0;
}

}  // namespace unisono::command
