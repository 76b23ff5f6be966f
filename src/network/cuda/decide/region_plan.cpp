#include "network/cuda/decide/region_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

namespace unisono::network::gpu {

namespace {

using Lines = std::back_insert_iterator<std::string>;

void print(Lines to, const ContractionPlan& c, const char* what) {
  if (c.whole) {
    for (const FamilyKernel& ahead : c.whole->ahead) fmt::format_to(to, "  {}, the first: {}\n", what, ahead.how);
    fmt::format_to(to, "  {}: one kernel, {}\n", what, c.whole->how);
    return;
  }
  fmt::format_to(to, "  {}: not one kernel: {}\n", what, c.not_whole->first());
  if (c.bare)
    fmt::format_to(to, "  {} without its epilogue: {}\n", what, c.bare->how);
  else
    fmt::format_to(to, "  {}: one sum a thread: {}\n", what, c.not_bare->first());
}

void print(Lines to, const StatisticsPlan& s, const PlanningInput& in) {
  if (s.refusal) {
    fmt::format_to(to, "  statistics: by a pass over the source: {}\n", s.refusal->first());
    return;
  }
  std::vector<std::string> parts;
  for (const SourcePart& p : s.parts) parts.push_back(fmt::format("'{}'", in.name(p.tensor)));
  fmt::format_to(to, "  statistics: from the kernels of {}\n", fmt::join(parts, ", "));
}

void print(Lines to, const HostGroup& g, const PlanningInput& in) {
  const auto names = [&](const std::vector<TensorId>& ids) {
    std::vector<std::string> quoted;
    for (const TensorId id : ids) quoted.push_back(fmt::format("'{}'", in.name(id)));
    return fmt::format("{}", fmt::join(quoted, ", "));
  };
  fmt::format_to(to, "host step of {} operators: reads {}; makes {}\n", g.operators.size(), names(g.inputs),
                 names(g.outputs));
}

void print(Lines to, const RegionPlan& p, const Region& r, const PlanningInput& in) {
  if (p.host) fmt::format_to(to, "  on the host: {}\n", p.host->why.first());
  if (p.tensors && !p.host) fmt::format_to(to, "  tensor kernels: {}\n", p.tensors->how());
  for (const GatheredOperand& g : p.gathered)
    fmt::format_to(to, "  operand '{}' is gathered: rows of {} columns\n", r.operands[g.operand].name,
                   g.packed.columns);
  if (p.contraction) print(to, *p.contraction, "contraction");
  if (p.beside == Beside::resampled)
    for (const ResampledStore& s : r.resampled)
      fmt::format_to(to, "  stores '{}' {}\n", in.name(s.to), s.pooled ? "pooled" : "upsampled");
  if (p.beside == Beside::reduced) fmt::format_to(to, "  reduces to '{}'\n", in.name(r.reduced->to));
  if (p.reduced_by) fmt::format_to(to, "  by the kernel of region {}\n", *p.reduced_by);
  if (p.attention && p.attention->cudnn) fmt::format_to(to, "  {}\n", p.attention->cudnn->text());
  if (p.attention && p.attention->not_cudnn)
    fmt::format_to(to, "  attention not by cuDNN: {}\n", p.attention->not_cudnn->first());
  if (p.layers) fmt::format_to(to, "  two layers{} in one launch\n", p.layers->pools ? " and the pool ahead" : "");
  if (p.layers_by) fmt::format_to(to, "  by the launch of region {}\n", *p.layers_by);
  if (p.not_layers) fmt::format_to(to, "  two layers apart: {}\n", p.not_layers->first());
  if (p.apart) fmt::format_to(to, "  {} apart: {}\n", r.reduced ? "reduction" : "resampled stores", p.apart->first());
  if (p.statistics) print(to, *p.statistics, in);
}

}  // namespace

double predicted_us(const FamilyKernel& kernel) {
  double us = kernel.lowered.plan().predicted_us;
  for (const FamilyKernel& ahead : kernel.ahead) us += predicted_us(ahead);
  return us;
}

std::string to_string(const NetworkPlan& plan, const PlanningInput& in) {
  std::string text;
  const auto to = std::back_inserter(text);
  for (const auto& [id, position] : plan.im2col_inputs)
    fmt::format_to(to, "input '{}': filter taps of an image row as channels\n", in.name(id));
  int kernel = 0;  // as KernelNumbers
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    const Region& r = in.region(i);
    const bool is_free = r.kind == RegionReport::Kind::free;
    kernel += is_free ? 0 : 1;
    if (!in.is_launched(r)) continue;
    fmt::format_to(to, "{} '{}'\n", is_free ? "copies" : fmt::format("kernel {}", kernel),
                   r.outputs.empty() ? "" : in.name(r.outputs[0].tensor));
    print(to, plan.regions[i], r, in);
  }
  for (const HostGroup& g : plan.host_groups) print(to, g, in);
  return text;
}

}  // namespace unisono::network::gpu
