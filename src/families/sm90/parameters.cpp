#include "families/sm90/parameters.hpp"

#include <fmt/format.h>

#include "unisono/error.hpp"

namespace unisono::families::sm90 {

std::size_t checked_parameter_bytes(std::size_t fields, std::size_t maps) {
  if (fields + maps * fields_of_map > most_fields)
    throw Unsupported(fmt::format("the epilogue reads {} operands; a kernel's parameters hold {}", fields,
                                  most_fields - maps * fields_of_map));
  return parameter_bytes(fields, maps);
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

void put_common(Parameter& to, const Tensors& tensors, std::size_t maps) {
  to.put_address(offsetof(ConvParams, side_memory), tensors.side);
  to.put_fields(offsetof(Parameters, fields) + maps * sizeof(TensorMap), tensors.fields);
}

}  // namespace unisono::families::sm90
