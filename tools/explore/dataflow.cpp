#include "explore/dataflow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "figure/svg.hpp"
#include "network/kernel_numbers.hpp"

namespace unisono::explore {
namespace {

constexpr double line_size = 12, line_height = 15, padding = 8;
constexpr std::size_t longest_line = 44;

std::string shortened(std::string text) {
  if (text.size() <= longest_line) return text;
  std::size_t end = longest_line - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // whole UTF-8 characters
  return text.substr(0, end) + "…";
}

std::string time_of(const Launch& l) {
  if (l.measured_us) return fmt::format("{:.1f} µs", *l.measured_us);
  if (l.report.predicted_us > 0) return fmt::format("{:.1f} µs predicted", l.report.predicted_us);
  return l.report.floor_us > 0 ? fmt::format("at least {:.1f} µs", l.report.floor_us) : std::string();
}

std::string share_of(const Launch& l) {
  const double us = l.measured_us ? *l.measured_us : l.report.predicted_us;
  return us > 0 && l.report.floor_us > 0 ? fmt::format(", {:.0f} % of roofline", 100 * l.report.floor_us / us) : "";
}

Box box_of(std::size_t index, const Launch& l, int number, const RegionReport* region) {
  Box box{.launch = index, .lines = {}};
  box.lines.push_back(shortened((number > 0 ? fmt::format("{}. ", number) : "") + l.report.what));
  if (region && region->operators.size() > 1) {
    std::string fused;
    const bool epilogue = region->kind == RegionReport::Kind::epilogue;
    for (std::size_t i = epilogue ? 0 : 1; i < region->operators.size(); ++i)
      fused += (fused.empty() ? (epilogue ? "" : "+ ") : " + ") + region->operators[i];
    box.lines.push_back(shortened(fused));
  }
  const std::string time = time_of(l);
  if (!time.empty()) box.lines.push_back(time + share_of(l));
  return box;
}

/// The edges that the layout bends around boxes: all, or the shortest whose lengths, in boxes, are at most so many
/// together. A layout takes time and memory for each layer that an edge passes.
std::vector<bool> bent(const std::vector<figure::LayeredGraph::Edge>& edges) {
  constexpr std::size_t most = 200'000;
  std::vector<std::size_t> order(edges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t i) { return edges[i].to - edges[i].from; };
  std::ranges::stable_sort(order, {}, length);
  std::vector<bool> result(edges.size(), false);
  std::size_t sum = 0;
  for (const std::size_t i : order)
    if ((sum += length(i)) <= most) result[i] = true;
  return result;
}

/// Without the points of a vertical line between its ends.
std::vector<figure::Point> simplified(const std::vector<figure::Point>& points) {
  std::vector<figure::Point> kept;
  const auto near = [](double a, double b) { return std::abs(a - b) < 0.05; };
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool is_inner = i > 0 && i + 1 < points.size();
    if (!is_inner || !near(points[i - 1].x, points[i].x) || !near(points[i].x, points[i + 1].x))
      kept.push_back(points[i]);
  }
  return kept;
}

figure::LayeredLayout layout_of(const std::vector<Box>& boxes, const std::vector<figure::LayeredGraph::Edge>& edges) {
  figure::LayeredGraph graph;
  for (const Box& box : boxes) {
    double width = 60;
    for (const std::string& line : box.lines) width = std::max(width, figure::svg_text_width(line, line_size));
    graph.nodes.push_back({width + 2 * padding, static_cast<double>(box.lines.size()) * line_height + 2 * padding - 4});
  }
  const std::vector<bool> is_bent = bent(edges);
  for (std::size_t i = 0; i < edges.size(); ++i)
    if (is_bent[i]) graph.edges.push_back(edges[i]);
  figure::LayeredLayout layout = figure::lay_out(graph);
  std::vector<std::vector<figure::Point>> all;
  std::size_t next = 0;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const figure::Rect &from = layout.nodes[edges[i].from], &to = layout.nodes[edges[i].to];
    if (is_bent[i])
      all.push_back(simplified(layout.edges[next++]));
    else
      all.push_back({{from.centre().x, from.bottom()}, {to.centre().x, to.y}});
  }
  layout.edges = std::move(all);
  return layout;
}

/// Finds the boxes that make what a box reads, in the order of the launches.
class Flow {
 public:
  Flow(const network::FusedNetwork& fused, const FusionReport& report) : fused_(fused), numbers_(report) {
    for (const RegionReport& r : report.regions) reports_.emplace(r.name, &r);
    for (std::size_t r = 0; r < fused.regions.size(); ++r) {
      const network::Region& region = fused.regions[r];
      regions_.emplace(fused.network[region.outputs[0].tensor].name, r);
      for (const std::size_t op : region.operators) region_of_[fused.network.operators[op].output] = r;
    }
    for (TensorId id = 0; id < fused.network.tensors.size(); ++id) tensors_.emplace(fused.network[id].name, id);
  }

  void add_input(TensorId id) { makers_[id] = {add({.lines = lines_of(id)})}; }

  void add_launch(std::size_t index, const Launch& launch) {
    const std::string& name = launch.report.name;
    const auto report = reports_.find(name);
    const std::size_t box =
        add(box_of(index, launch, numbers_.of(name), report == reports_.end() ? nullptr : report->second));
    if (launch.report.on_host) host_ = box;
    if (const auto region = regions_.find(name); region != regions_.end()) return add_of_region(box, region->second);
    for (const std::string_view prefix : {"input ", "from host ", "to host ", "output "})
      if (name.starts_with(prefix)) return add_at_border(box, prefix, name.substr(prefix.size()));
    flow_.complete = false;
  }

  void add_output(TensorId id) {
    const std::set<std::size_t> from = stored_.contains(id) ? stored_[id] : makers_of(id);
    connect(from, add({.lines = lines_of(id)}));
  }

  Dataflow finish() {
    flow_.layout = layout_of(flow_.boxes, flow_.edges);
    return std::move(flow_);
  }

 private:
  std::vector<std::string> lines_of(TensorId id) const {
    const NetworkTensor& t = fused_.network[id];
    return {shortened(t.name), shortened(unisono::to_string(t.shape))};
  }

  std::size_t add(Box box) {
    flow_.boxes.push_back(std::move(box));
    return flow_.boxes.size() - 1;
  }

  void connect(const std::set<std::size_t>& from, std::size_t to) {
    for (const std::size_t box : from)
      if (box < to) flow_.edges.push_back({box, to});
  }

  bool leads(std::size_t from, std::size_t to) const {
    return std::ranges::any_of(flow_.edges, [&](const auto& e) { return e.from == from && e.to == to; });
  }

  // The first launch of a region reads what the region reads, each other one what the one before has made
  void add_of_region(std::size_t box, std::size_t region) {
    const auto last = last_.find(region);
    std::set<std::size_t> from = last == last_.end() ? sources_of(region) : std::set<std::size_t>{last->second};
    if (last == last_.end() && host_ == box) {
      for (const std::size_t copy : waiting_) {
        std::erase_if(from, [&](std::size_t source) { return leads(source, copy); });
        from.insert(copy);
      }
      waiting_.clear();
    }
    connect(from, box);
    last_[region] = box;
    for (const std::size_t op : fused_.regions[region].operators) makers_[fused_.network.operators[op].output] = {box};
  }

  void add_at_border(std::size_t box, std::string_view prefix, const std::string& name) {
    const auto tensor = tensors_.find(name);
    if (tensor == tensors_.end()) return;
    const TensorId id = tensor->second;
    if (prefix == "from host ") {
      if (host_) connect({*host_}, box);
    } else {
      connect(makers_of(id), box);
    }
    if (prefix == "to host ")
      waiting_.insert(box);
    else if (prefix == "output ")
      stored_[id] = {box};
    else
      makers_[id] = {box};
  }

  std::set<std::size_t> sources_of(std::size_t region) {
    std::set<std::size_t> from;
    for (const std::size_t op : fused_.regions[region].operators)
      for (const TensorId input : fused_.network.operators[op].inputs)
        if (!region_of_.contains(input) || region_of_[input] != region) from.merge(makers_of(input));
    return from;
  }

  // Through regions without launches: views, and what other launches store
  std::set<std::size_t> makers_of(TensorId id) {
    if (const auto known = makers_.find(id); known != makers_.end()) return known->second;
    makers_[id] = {};
    if (const auto region = region_of_.find(id); region != region_of_.end()) makers_[id] = sources_of(region->second);
    return makers_[id];
  }

  const network::FusedNetwork& fused_;
  network::KernelNumbers numbers_;
  std::map<std::string, const RegionReport*> reports_;
  std::map<std::string, std::size_t> regions_;  // by the name of the first output
  std::map<std::string, TensorId> tensors_;
  std::map<TensorId, std::size_t> region_of_;
  std::map<TensorId, std::set<std::size_t>> makers_, stored_;  // stored_: by the launch that writes an output
  std::map<std::size_t, std::size_t> last_;                    // by region: its last launch so far
  std::set<std::size_t> waiting_;                              // copies to the host, until a host step reads them
  std::optional<std::size_t> host_;                            // the last host step
  Dataflow flow_;
};

}  // namespace

Dataflow dataflow_of(const network::FusedNetwork& fused, const FusionReport& report,
                     const std::vector<Launch>& launches) {
  Flow flow(fused, report);
  for (const TensorId id : fused.network.inputs) flow.add_input(id);
  for (std::size_t i = 0; i < launches.size(); ++i) flow.add_launch(i, launches[i]);
  for (const TensorId id : fused.network.outputs) flow.add_output(id);
  return flow.finish();
}

void lay_out(Dataflow& flow) {
  for (Box& box : flow.boxes)
    for (std::string& line : box.lines) line = shortened(std::move(line));
  flow.layout = layout_of(flow.boxes, flow.edges);
}

Dataflow in_a_row(const std::vector<Launch>& launches) {
  Dataflow flow;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    flow.boxes.push_back(box_of(i, launches[i], static_cast<int>(i) + 1, nullptr));
    if (i > 0) flow.edges.push_back({i - 1, i});
  }
  flow.layout = layout_of(flow.boxes, flow.edges);
  return flow;
}

}  // namespace unisono::explore
