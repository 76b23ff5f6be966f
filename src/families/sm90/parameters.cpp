#include "families/sm90/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "support/checked.hpp"

namespace unisono::families::sm90 {
namespace {

// A stride or dilation that no 32 bits hold is beyond any image: there is one output pixel, or one tap, and it is not
// used
int as_far_as_it_matters(std::int64_t x) {
  return static_cast<int>(std::min<std::int64_t>(x, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace

plan::Expected<std::size_t> checked_parameter_bytes(std::size_t fields, std::size_t maps) {
  const std::size_t taken = maps * sizeof(TensorMap) / 8, room = most_fields - std::min(taken, most_fields);
  if (fields > room || taken > most_fields)
    return plan::because(fmt::format("the epilogue reads {} operands; a kernel's parameters hold {}", fields, room));
  return parameter_bytes(fields, maps);
}

ConvGeometry common_geometry(const plan::ConvTask& task) {
  const Conv2d& c = task.conv;
  const Extents e = extents(task.contraction());
  ConvGeometry g{};
  const auto number = [](const char* what, std::int64_t x) { return support::narrow<int>(what, x); };
  g.channels = number("output channels", c.k);
  g.height = number("output height", e.height), g.width = number("output width", e.width);
  g.stride_h = as_far_as_it_matters(c.stride[0]), g.stride_w = as_far_as_it_matters(c.stride[1]);
  g.pad_h = number("padding", c.pad[0]), g.pad_w = number("padding", c.pad[1]);
  g.dilation_h = as_far_as_it_matters(c.dilation[0]), g.dilation_w = as_far_as_it_matters(c.dilation[1]);
  g.plane_height = g.height;
  if (const auto& v = task.volume) {
    const std::int64_t planes = output_planes(*v);
    g.plane_height = static_cast<int>(e.height / planes), g.plane_taps_h = number("filter rows", v->r);
    g.stride_d = as_far_as_it_matters(v->stride.d), g.pad_d = number("padding", v->before.d);
    g.dilation_d = as_far_as_it_matters(v->dilation.d);
  }
  return g;
}

void put_common(Parameter& to, const Tensors& tensors, std::size_t maps) {
  to.put_address(offsetof(ConvParams, side_memory), tensors.side);
  to.put_fields(params_layout::layout(maps, tensors.fields.bits.size()).fields, tensors.fields);
}

}  // namespace unisono::families::sm90
