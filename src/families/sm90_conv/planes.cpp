#include "families/sm90_conv/planes.hpp"

#include <cstddef>

#include "families/sm90/gathering.hpp"
#include "families/sm90_conv/tensor_maps.hpp"
#include "unisono/params/sm90_kernel_params.cuh"

namespace unisono::families::sm90_conv {
namespace {

/// The place of the PlanesToConvert: the last map behind ConvParams.
std::size_t at_planes(const ConvConfig& c) { return params_layout::map_offset(static_cast<u64>(c.further_maps()) - 1); }

int narrow(std::int64_t x) { return static_cast<int>(x); }

}  // namespace

plan::ConvTask as_converted(plan::ConvTask task) {
  task.conv.c = sm90::converted_channels(task.conv);
  return task;
}

void fill_converted(Parameter& to, const plan::ConvTask& task, const ConvPlan& plan, const Tensors& tensors) {
  const MapShapes shapes = map_shapes(as_converted(task), plan);
  const DType element = plan.config.element;
  to.put_map(offsetof(ConvParams, activation), shapes.activation, {tensors.activation.data}, element,
             "the converted image");
  to.put_map(offsetof(ConvParams, filter), shapes.filter, {tensors.filter.data}, element, "the converted filter");
  const Conv2d& c = task.conv;
  const Conversion& v = plan.conversion;
  const std::size_t place = at_planes(plan.config);
  auto& planes = to.bytes.at<PlanesToConvert>(place);
  planes.width = narrow(c.w), planes.pixels = narrow(c.h * c.w), planes.channels = narrow(c.c);
  planes.padded = narrow(sm90::converted_channels(c)), planes.taps = narrow(c.r * c.s);
  planes.blocks = v.blocks, planes.bands = v.bands, planes.filter_pieces = v.filter_pieces;
  planes.filter_units = v.filter_units, planes.units = v.units, planes.ahead = v.ahead;
  planes.units_ahead = v.units_ahead;
  planes.by_blocks = divisor(static_cast<u64>(v.blocks)), planes.by_bands = divisor(static_cast<u64>(v.bands));
  planes.by_filter_pieces = divisor(static_cast<u64>(v.filter_pieces));
  to.put_address(place + offsetof(PlanesToConvert, image), tensors.activation);
  to.put_address(place + offsetof(PlanesToConvert, filter), tensors.filter);
  to.put_address(place + offsetof(PlanesToConvert, output), tensors.output);
}

std::vector<Site> converted_maps(const ConvPlan& plan) {
  if (!plan.config.operands.converted) return {};
  constexpr auto map = Site::Kind::tensor_map;
  return {{.offset = offsetof(ConvParams, activation), .ahead = plan.workspace.image, .kind = map},
          {.offset = offsetof(ConvParams, filter), .ahead = plan.workspace.filter, .kind = map}};
}

void place_converted(ParameterBytes& to, const ConvPlan& plan, std::uint64_t base) {
  if (!plan.config.operands.converted) return;
  const auto at = [&](std::size_t offset) { return reinterpret_cast<void*>(base + offset); };
  auto& planes = to.at<PlanesToConvert>(at_planes(plan.config));
  planes.image_to = at(plan.workspace.image), planes.filter_to = at(plan.workspace.filter);
  planes.flags = static_cast<u32*>(at(plan.workspace.converted));
  planes.spilled = at(plan.workspace.spilled);
}

}  // namespace unisono::families::sm90_conv
