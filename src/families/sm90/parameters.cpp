#include "families/sm90/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace unisono::families::sm90 {

plan::Expected<std::size_t> checked_parameter_bytes(std::size_t fields, const Between& between) {
  const std::size_t taken = between.bytes() / 8, room = most_fields - std::min(taken, most_fields);
  if (fields > room || taken > most_fields)
    return plan::because(fmt::format(
        "the epilogue reads {} operands{}; a kernel's parameters hold {}", fields,
        between.head_fields.value_or(0) > 0 ? fmt::format(", and its head {}", *between.head_fields) : "", room));
  return parameter_bytes(fields, between);
}

ConvGeometry common_geometry(const plan::ConvTask& task) {
  const Conv2d& c = task.conv;
  const Extents e = extents(task.contraction());
  ConvGeometry g{};
  g.channels = static_cast<int>(c.k);
  g.height = static_cast<int>(e.height), g.width = static_cast<int>(e.width);
  g.stride_h = static_cast<int>(c.stride[0]), g.stride_w = static_cast<int>(c.stride[1]);
  g.pad_h = static_cast<int>(c.pad[0]), g.pad_w = static_cast<int>(c.pad[1]);
  g.dilation_h = static_cast<int>(c.dilation[0]), g.dilation_w = static_cast<int>(c.dilation[1]);
  return g;
}

void put_common(Parameter& to, const Tensors& tensors, const Between& between) {
  to.put_address(offsetof(ConvParams, side_memory), tensors.side);
  to.put_fields(between.layout().fields, tensors.fields);
}

}  // namespace unisono::families::sm90
