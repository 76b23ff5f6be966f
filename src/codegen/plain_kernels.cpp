/// Kernels of a network that are not generated from a graph but chosen.

#include <fmt/format.h>

#include "codegen/graph_kernels.hpp"
#include "codegen/pieces.hpp"
#include "unisono/error.hpp"

namespace unisono::codegen {

std::string_view to_string(PlainKernel kernel) {
  switch (kernel) {
    case PlainKernel::enter: return "enter";
    case PlainKernel::leave: return "leave";
    case PlainKernel::pool_images: return "pool_images";
    case PlainKernel::join_moments: return "join_moments";
  }
  throw InternalError("a plain kernel without a name");
}

std::string plain_entry(PlainKernel kernel) { return fmt::format("unisono_{}", to_string(kernel)); }

std::string plain_source(DType element) {
  const std::string_view type = element_name(element);
  std::string text =
      "// The kernels of a network that are not generated from a graph.\n#include <unisono/plain/plain.cuh>\n"
      "#include <unisono/plain/plain_moments.cuh>\n";
  const auto add = [&](PlainKernel kernel, std::string_view parameters, const std::string& call) {
    text += fmt::format(
        "\nextern \"C\" __global__ void __launch_bounds__(256)\n"
        "{}(const __grid_constant__ unisono::{} p) {{\n    using namespace unisono;\n    begin();\n    "
        "plain::{}(p);\n}}\n",
        plain_entry(kernel), parameters, call);
  };
  add(PlainKernel::enter, "BorderParams", fmt::format("enter<{}>", type));
  add(PlainKernel::leave, "BorderParams", fmt::format("leave<{}>", type));
  add(PlainKernel::pool_images, "PoolImagesParams", fmt::format("pool_images<{}>", type));
  add(PlainKernel::join_moments, "JoinMomentsParams", "join_moments");
  return text;
}

}  // namespace unisono::codegen
