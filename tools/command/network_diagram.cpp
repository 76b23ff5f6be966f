#include "command/network_diagram.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "network/cuda/run/plan.hpp"
#include "network/joined_convolutions.hpp"
#include "network/kernel_numbers.hpp"
#include "network/regions.hpp"

namespace unisono::command {
namespace {

using figure::Box;
using figure::BoxDiagram;
using figure::Color;
using Kind = RegionReport::Kind;

constexpr Color input_fill{253, 230, 138}, output_fill{220, 252, 231}, contraction_fill{219, 234, 254},
    epilogue_fill{237, 233, 254}, single_fill{255, 237, 213}, free_fill{250, 250, 250};
constexpr std::size_t longest_line = 46;

/// White to red.
constexpr Color heated(double heat) {
  const auto part = [&](double hottest) {
    return static_cast<std::uint8_t>(255.5 - (255 - hottest) * std::clamp(heat, 0.0, 1.0));
  };
  return {255, part(140), part(110)};
}

const figure::LegendEntry fills[] = {{"input", input_fill},
                                     {"output", output_fill},
                                     {"contraction + epilogue: one kernel", contraction_fill},
                                     {"epilogue alone: one kernel", epilogue_fill},
                                     {"one operator", single_fill},
                                     {"free", free_fill},
                                     {"the longer it takes", heated(1)}};

Color fill_of(Kind kind) {
  switch (kind) {
    case Kind::contraction: return contraction_fill;
    case Kind::epilogue: return epilogue_fill;
    case Kind::single: return single_fill;
    case Kind::free: return free_fill;
  }
  return free_fill;
}

/// "conv2d + group_norm + mish", in lines of bounded length.
std::vector<std::string> wrapped(const std::vector<std::string>& operators) {
  std::vector<std::string> lines{""};
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const std::string piece = (i == 0 ? "" : "+ ") + operators[i];
    if (!lines.back().empty() && lines.back().size() + 1 + piece.size() > longest_line) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + piece;
  }
  return lines;
}

struct Share {
  double us = 0, floor_us = 0;
};

RegionNotes notes_of(const std::map<std::string, Share>& times) {
  double sum = 0, most = 0;
  for (const auto& [name, t] : times) sum += t.us, most = std::max(most, t.us);
  RegionNotes notes;
  for (const auto& [name, t] : times) {
    if (t.us <= 0) continue;
    std::string text = fmt::format("{:.1f} us, {:.1f} % of all", t.us, 100 * t.us / sum);
    if (t.floor_us > 0) text += fmt::format("; {:.0f} % of the peak", 100 * t.floor_us / t.us);
    notes[name] = {std::move(text), t.us / most};
  }
  return notes;
}

Box box_of(const RegionReport& report, int number) {
  Box box{.lines = {}, .fill = fill_of(report.kind), .dashed = report.kind == Kind::free};
  const std::string head = report.contraction.empty() ? "epilogue over " + report.name : report.contraction;
  box.lines.push_back(report.kind == Kind::free ? head : fmt::format("{}. {}", number, head));
  if (report.operators.size() > 1 || report.kind == Kind::epilogue) {
    for (std::string& line : wrapped(report.operators)) box.lines.push_back(std::move(line));
  }
  return box;
}

// The boxes of a network in its order, and from which box to which its tensors go
class DiagramBuilder {
 public:
  DiagramBuilder(const network::FusedNetwork& fused, const FusionReport& report, const RegionNotes& notes,
                 BoxDiagram& diagram)
      : fused_(fused), numbers_(report), notes_(notes), diagram_(diagram) {}

  void add_input(TensorId id) {
    writer_[id] = diagram_.boxes.size();
    add_tensor(id, "input ", input_fill);
  }

  void add_region(const network::Region& region, const RegionReport& report) {
    const std::size_t box = diagram_.boxes.size();
    std::set<std::size_t> sources;
    for (const std::size_t op : region.operators) {
      for (const TensorId input : fused_.network.operators[op].inputs) {
        if (writer_.contains(input)) sources.insert(writer_.at(input));
      }
    }
    for (const std::size_t op : region.operators) writer_[fused_.network.operators[op].output] = box;
    for (const std::size_t source : sources) diagram_.edges.push_back({source, box});
    add(box_of(report, numbers_.of(report.name)), report.name);
  }

  void add_output(TensorId id) {
    if (writer_.contains(id)) diagram_.edges.push_back({writer_.at(id), diagram_.boxes.size()});
    add_tensor(id, "output ", output_fill);
  }

 private:
  void add_tensor(TensorId id, const char* role, Color fill) {
    const NetworkTensor& tensor = fused_.network[id];
    add({.lines = {tensor.name, to_string(tensor.shape)}, .fill = fill, .corner_radius = 14}, role + tensor.name);
  }

  void add(Box box, const std::string& name) {
    if (const auto note = notes_.find(name); note != notes_.end()) {
      box.lines.push_back(note->second.text);
      box.fill = heated(note->second.heat);
    }
    diagram_.boxes.push_back(std::move(box));
  }

  const network::FusedNetwork& fused_;
  network::KernelNumbers numbers_;
  const RegionNotes& notes_;
  BoxDiagram& diagram_;
  std::map<TensorId, std::size_t> writer_;  // box that makes a tensor
};

// As the executable has it
network::FusedNetwork fused_for(const Network& network, const NetworkOptions& options) {
  if (options.device == Device::cuda) return network::gpu::fuse_for_gpu(network, options);
  return network::fuse(options.fuse ? network::join_convolutions(network) : network, options.fuse);
}

}  // namespace

RegionNotes notes_of(const std::vector<StepTime>& profile) {
  std::map<std::string, Share> times;
  for (const StepTime& s : profile) {
    Share& t = times[s.name];
    t.us += 1000 * s.milliseconds, t.floor_us += 1000 * s.floor_ms;
  }
  return notes_of(times);
}

RegionNotes notes_of(const DeviceReport& report) {
  std::map<std::string, Share> times;
  for (const LaunchReport& l : report.launches) times[l.name].us += l.predicted_us;
  return notes_of(times);
}

figure::BoxDiagram diagram_of(const Network& network, const std::string& title, const NetworkOptions& options,
                              const RegionNotes& notes) {
  const network::FusedNetwork fused = fused_for(network, options);
  const FusionReport report = network::report(fused, network.operators.size());
  BoxDiagram diagram{.title = title, .legend = {std::begin(fills), std::end(fills)}};
  DiagramBuilder builder(fused, report, notes, diagram);
  for (const TensorId id : fused.network.inputs) builder.add_input(id);
  for (std::size_t r = 0; r < fused.regions.size(); ++r) builder.add_region(fused.regions[r], report.regions[r]);
  for (const TensorId id : fused.network.outputs) builder.add_output(id);
  return diagram;
}

}  // namespace unisono::command
