#include "command/network_diagram.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

#include "network/regions.hpp"

namespace coda::command {
namespace {

using figure::Box;
using figure::BoxDiagram;
using figure::Color;
using Kind = RegionReport::Kind;

constexpr Color input_fill{253, 230, 138}, output_fill{220, 252, 231}, contraction_fill{219, 234, 254},
    epilogue_fill{237, 233, 254}, single_fill{255, 237, 213}, free_fill{250, 250, 250};
constexpr std::size_t longest_line = 46;

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

Box box_of(const RegionReport& report, int number) {
  Box box{.lines = {}, .fill = fill_of(report.kind), .dashed = report.kind == Kind::free};
  const std::string head = report.contraction.empty() ? "epilogue over " + report.name : report.contraction;
  box.lines.push_back(report.kind == Kind::free ? head : fmt::format("{}. {}", number, head));
  if (report.operators.size() > 1 || report.kind == Kind::epilogue) {
    for (std::string& line : wrapped(report.operators)) box.lines.push_back(std::move(line));
  }
  return box;
}

}  // namespace

figure::BoxDiagram diagram_of(const Network& network, const std::string& title) {
  network::FusedNetwork fused = network::fuse(network);
  network::place(fused);
  const FusionReport report = network::report(fused, network.operators.size());
  BoxDiagram diagram{.title = title};
  diagram.legend = {{"contraction + epilogue: one kernel", contraction_fill},
                    {"epilogue alone: one kernel", epilogue_fill},
                    {"one operator", single_fill},
                    {"free", free_fill}};
  std::map<TensorId, std::size_t> writer;  // box that makes a tensor
  for (const TensorId id : fused.network.inputs) {
    writer[id] = diagram.boxes.size();
    diagram.boxes.push_back({.lines = {fused.network[id].name, to_string(fused.network[id].shape)},
                             .fill = input_fill,
                             .corner_radius = 14});
  }
  int kernels = 0;
  for (std::size_t r = 0; r < fused.regions.size(); ++r) {
    const network::Region& region = fused.regions[r];
    const std::size_t box = diagram.boxes.size();
    std::set<std::size_t> sources;
    for (const std::size_t op : region.operators) {
      for (const TensorId input : fused.network.operators[op].inputs) {
        if (writer.contains(input)) sources.insert(writer.at(input));
      }
    }
    for (const std::size_t op : region.operators) writer[fused.network.operators[op].output] = box;
    for (const std::size_t source : sources) diagram.edges.push_back({source, box});
    diagram.boxes.push_back(box_of(report.regions[r], region.kind == Kind::free ? 0 : ++kernels));
  }
  for (const TensorId id : fused.network.outputs) {
    if (writer.contains(id)) diagram.edges.push_back({writer.at(id), diagram.boxes.size()});
    diagram.boxes.push_back({.lines = {fused.network[id].name, to_string(fused.network[id].shape)},
                             .fill = output_fill,
                             .corner_radius = 14});
  }
  return diagram;
}

}  // namespace coda::command
