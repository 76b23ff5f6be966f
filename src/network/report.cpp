/// What was fused into what, for people.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "network/dim.hpp"
#include "network/joined_convolutions.hpp"
#include "network/kernel_numbers.hpp"
#include "network/regions.hpp"
#include "unisono/text.hpp"

namespace unisono {

namespace network {

namespace {

struct Describe {
  const Network& n;
  const Operator& op;

  const Shape& input(std::size_t i) const { return n[op.inputs[i]].shape; }
  const Shape& output() const { return n[op.output].shape; }

  std::string convolution(std::string_view name, const ConvAttributes& c) const {
    const Shape& w = input(1);
    return fmt::format("{} {} -> {}, {}x{}{}", name, to_string(input(0)), to_string(output()[1]), to_string(w[2]),
                       to_string(w[3]), to_string(c));
  }

  std::string operator()(const operators::Conv2d& c) const { return convolution("conv2d", c); }
  std::string operator()(const operators::UpsampledConv2d& c) const {
    return convolution("conv2d", c) + ", image upsampled 2x2";
  }
  // As the volumes that it stands for
  std::string operator()(const operators::StackedConv3d& c) const {
    const Shape &x = input(0), &w = input(1);
    const Shape volume{x[0], x[1], Dim(c.planes), Dim(x[2].value() / c.planes), x[3]};
    std::string text = fmt::format("conv3d {} -> {}, {}x{}x{}", to_string(volume), to_string(output()[1]), c.taps,
                                   w[2].value() / c.taps, to_string(w[3]));
    const auto append = [&](std::string_view field, const std::vector<std::int64_t>& list, std::int64_t usual) {
      if (std::ranges::count(list, usual) != 3) text += fmt::format(", {} {}", field, fmt::join(list, "x"));
    };
    append("stride", c.conv.stride, 1), append("pad", c.conv.before, 0);
    if (c.conv.after != c.conv.before) text += fmt::format(" to {}", fmt::join(c.conv.after, "x"));
    append("dilation", c.conv.dilation, 1);
    if (c.conv.groups != 1) text += fmt::format(", groups {}", c.conv.groups);
    return text;
  }
  std::string operator()(const operators::ConvTranspose2d& c) const { return convolution("conv_transpose2d", c); }
  std::string operator()(const operators::Gemm&) const {
    return fmt::format("gemm {} -> {}", to_string(input(0)), to_string(output()));
  }
  std::string operator()(const auto&) const {
    return fmt::format("{} {} -> {}", to_string(op.kind), op.inputs.empty() ? "" : to_string(input(0)),
                       to_string(output()));
  }
};

}  // namespace

std::string describe(const Network& network, const Operator& op) { return std::visit(Describe{network, op}, op.kind); }

FusionReport report(const FusedNetwork& fused, std::size_t network_operators) {
  FusionReport result;
  result.operators = static_cast<int>(network_operators);
  for (const Region& r : fused.regions) {
    RegionReport line;
    line.kind = r.kind;
    line.name = fused.network[r.outputs[0].tensor].name;
    for (const std::size_t i : r.operators) line.operators.push_back(to_string(fused.network.operators[i].kind));
    if (r.kind != RegionReport::Kind::epilogue)
      line.contraction = describe(fused.network, fused.network.operators[r.operators[0]]);
    const Operator& first = fused.network.operators[r.operators[0]];
    if (std::holds_alternative<operators::UpsampledConv2d>(first.kind))
      line.summed_filter = fused.network[first.inputs[1]].name;
    if (!r.graph.nodes.empty()) line.epilogue = print(r.graph);
    for (const RegionOutput& o : r.outputs) line.outputs.push_back(fused.network[o.tensor].name);
    line.note = r.note;
    result.kernels += r.kind == RegionReport::Kind::free ? 0 : 1;
    result.regions.push_back(std::move(line));
  }
  return result;
}

KernelNumbers::KernelNumbers(const FusionReport& report) {
  int number = 0;
  for (const RegionReport& r : report.regions)
    if (r.kind != RegionReport::Kind::free) numbers_.emplace(r.name, ++number);
}

int KernelNumbers::of(const std::string& name) const {
  const auto it = numbers_.find(name);
  return it == numbers_.end() ? 0 : it->second;
}

}  // namespace network

std::string to_string(const FusionReport& report) {
  using Kind = RegionReport::Kind;
  std::string text = fmt::format("{} operators in {} kernels\n", report.operators, report.kernels);
  const network::KernelNumbers numbers(report);
  for (const RegionReport& r : report.regions) {
    const std::string label = r.kind == Kind::free ? " free" : fmt::format("{:5}", numbers.of(r.name));
    text += fmt::format("{}  {}", label,
                        r.kind == Kind::epilogue ? fmt::format("epilogue over {}", r.name) : r.contraction);
    if (r.operators.size() > 1 || r.kind == Kind::epilogue)
      text += fmt::format("   [{}]", fmt::join(r.operators, " + "));
    text += "\n";
    for (std::size_t begin = 0; begin < r.epilogue.size();) {
      const std::size_t end = std::min(r.epilogue.find('\n', begin), r.epilogue.size());
      text += fmt::format("         {}\n", std::string_view(r.epilogue).substr(begin, end - begin));
      begin = end + 1;
    }
    text += fmt::format("       -> {}", fmt::join(r.outputs, ", "));
    text += r.note.empty() ? "\n" : fmt::format("   ({})\n", r.note);
  }
  return text;
}

std::string to_string(const DeviceReport& report) {
  const auto host = static_cast<std::size_t>(std::ranges::count(report.launches, true, &LaunchReport::on_host));
  std::string text = fmt::format(
      "{} launches{} for {}{}\n", report.launches.size() - host,
      host == 0 ? "" : fmt::format(" and {} host step{}", host, host == 1 ? "" : "s"), report.device,
      report.device_note.empty() ? "" : fmt::format(", which this machine does not have ({})", report.device_note));
  const network::KernelNumbers numbers(report.fusion);
  for (const LaunchReport& l : report.launches) {
    const int number = numbers.of(l.name);
    const std::string label = l.on_host ? " host" : number == 0 ? "    -" : fmt::format("{:5}", number);
    text += fmt::format("{}  {}\n         {}{}\n       -> {}\n", label, l.what, l.how,
                        l.predicted_us > 0 ? fmt::format(", {:.1f} us predicted", l.predicted_us) : "", l.name);
  }
  return text;
}

FusionReport explain(const Network& net, const NetworkOptions& options) {
  verify(net);
  const Network joined = options.fuse ? network::join_convolutions(net) : net;
  return network::report(network::fuse(joined, options.fuse), net.operators.size());
}

}  // namespace unisono
