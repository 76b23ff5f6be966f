#include "products/kernel.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "support/checked.hpp"

namespace unisono::products {

std::optional<plan::Refusal> refuse_device(const plan::Device& device) {
  if (device.major >= 8) return std::nullopt;
  return plan::because(fmt::format(
      "products of computed tensors have kernels from sm_80 on; this is {}. Use such a GPU, or the cpu device",
      device.arch()));
}

bool lies_together(const BatchedMatrix& m, std::int64_t first, std::int64_t line, std::int64_t step) {
  const bool batches = std::all_of(std::begin(m.batch), std::end(m.batch), [](std::int64_t s) { return s % 8 == 0; });
  return step == 1 && line % 8 == 0 && batches && first % 16 == 0;
}

std::uint32_t count(const BatchSpace& space) {
  support::Checked all("batches of a product", 1);
  for (const std::uint32_t x : space.extents) all = all * static_cast<std::int64_t>(x);
  return all.to<std::uint32_t>();
}

std::string source_of(const std::string& header, const std::string& entry, const std::string& parameters,
                      const std::string& call, const std::string& bounds) {
  return fmt::format(
      "#include <unisono/product/{}>\n#include <unisono/ptx/grid.cuh>\n"
      "\nextern \"C\" __global__ void __launch_bounds__({})\n"
      "{}(const __grid_constant__ unisono::{} p) {{\n    using namespace unisono;\n    begin();\n    "
      "product::{}(p);\n}}\n",
      header, bounds, entry, parameters, call);
}

}  // namespace unisono::products
