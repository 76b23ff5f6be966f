/// Copies between strided tensors.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "network/cuda/emit/emission.hpp"
#include "support/float_convert.hpp"

namespace unisono::network::gpu {

namespace {

// Axes in the order of the target's memory
std::vector<std::size_t> order_of(const Copy& c) {
  std::vector<std::size_t> order(c.extents.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t i, std::size_t j) { return c.to_strides[i] > c.to_strides[j]; });
  return order;
}

// Whether both have eight neighbours together everywhere
bool is_in_octets(const Copy& c, const std::vector<std::size_t>& order) {
  if (order.empty()) return false;
  const std::size_t last = order.back();
  if (c.to_strides[last] != 1 || c.from_strides[last] != 1 || c.extents[last] % 8 != 0 || c.before[last] != 0 ||
      c.source[last] != c.extents[last] || c.from_offset % 8 != 0 || c.to_offset % 8 != 0)
    return false;
  return std::all_of(order.begin(), order.end() - 1,
                     [&](std::size_t i) { return c.from_strides[i] % 8 == 0 && c.to_strides[i] % 8 == 0; });
}

CopyParams parameters(const RegionEmission& e, const Copy& c, const std::vector<std::size_t>& order, bool octets) {
  const std::int64_t unit = octets ? 8 : 1;
  CopyParams p{};
  std::fill_n(p.extents, kCopyRank, 1), std::fill_n(p.source, kCopyRank, 1);
  std::int64_t count = 1;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::size_t i = order[k], d = kCopyRank - order.size() + k;
    const bool joined = octets && i == order.back();
    p.extents[d] = count32(joined ? c.extents[i] / 8 : c.extents[i]);
    p.source[d] = count32(joined ? c.source[i] / 8 : c.source[i]);
    e.place32("extent", std::max(c.extents[i], c.source[i]));  // a kernel's places are signed
    p.before[d] = c.before[i] < 0 ? -e.place32("crop", -c.before[i]) : e.place32("pad", c.before[i]);
    p.from_strides[d] = joined ? 1 : c.from_strides[i] / unit, p.to_strides[d] = joined ? 1 : c.to_strides[i] / unit;
    count *= p.extents[d];
  }
  p.count = count32(count);
  const auto number = static_cast<float>(c.value);
  p.value = e.in.element == DType::bf16 ? support::float_to_bf16(number) : support::float_to_f16(number);
  return p;
}

}  // namespace

void emit_copy(RegionEmission& e, const Copy& c) {
  const std::vector<std::size_t> order = order_of(c);
  const bool octets = is_in_octets(c, order);
  const CopyParams fixed = parameters(e, c, order, octets);
  e.plain(octets ? codegen::PlainKernel::copy_octets : codegen::PlainKernel::copy_elements, fixed.count, fixed,
          {c.from.at, c.to.at}, Touched{{c.read}, {c.written}}, {c.what},
          [from = c.from.at, to = c.to.at, from_bytes = 2 * c.from_offset, to_bytes = 2 * c.to_offset](
              CopyParams& q, const Bases& bases) {
            q.from = static_cast<const std::byte*>(address(from, bases)) + from_bytes;
            q.to = static_cast<std::byte*>(address(to, bases)) + to_bytes;
          });
}

void emit_gathered_operands(RegionEmission& e, const Region& r, const RegionPlan& plan) {
  for (const GatheredOperand& g : plan.gathered) {
    const RegionOperand& o = r.operands[g.operand];
    const std::int64_t bytes = g.packed.rows * g.packed.pitch * static_cast<std::int64_t>(size_of(e.in.element));
    const PitchedTensor to{e.launches.scratch(static_cast<std::size_t>(bytes)), g.packed.pitch, e.in.element};
    const std::int64_t per_image = o.axes.row == RowAxis::m ? g.view.rows : 1;
    const Sizes extents{g.packed.rows / per_image, per_image, g.packed.columns};
    const Interval memory = interval(to.at, 1, bytes, bytes);
    e.gathered[o.name] = {to, memory};
    emit_copy(e, {.extents = extents,
                  .source = extents,
                  .before = {0, 0, 0},
                  .from = e.tensor(o.tensor),
                  .to = to,
                  .from_strides = {g.view.image, g.view.row, g.view.column},
                  .to_strides = {per_image * g.packed.pitch, g.packed.pitch, 1},
                  .read = e.all_of(o.tensor),
                  .written = memory,
                  .what = fmt::format("gathers '{}' {} as {}", e.in.name(o.tensor), to_string(e.net()[o.tensor].shape),
                                      to_string(o.axes))});
  }
}

}  // namespace unisono::network::gpu
