/// Operators that run by themselves.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "network/cuda/lowering.hpp"
#include "network/cuda/parameters.hpp"
#include "network/infer_tensors.hpp"
#include "network/names.hpp"
#include "network/resize_tables.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

std::uint32_t octets(const Sizes& s) { return count32((column_count(s) + 7) / 8); }

std::vector<int> to_int(const std::vector<std::int64_t>& x) { return {x.begin(), x.end()}; }

}  // namespace

void Lowering::pool(const Sizes& kernel, const Sizes& stride, const Sizes& pad, const Sizes& dilation, bool average,
                    bool count_pad) {
  const Sizes &x = sizes(in(0)), &y = sizes(out());
  const Located from = located(in(0)), to = located(out());
  const auto span = [&](std::size_t axis) { return (kernel[axis] - 1) * dilation[axis]; };
  place32("window span", std::max(span(0), span(1)));
  place32("image extent", std::max(x[2], x[3]));
  place32("window pixels", kernel[0] * kernel[1]);
  PoolParams p{};
  p.from.pitch = from.pitch, p.to.pitch = to.pitch;
  p.images = count32(x[0]), p.height = count32(x[2]), p.width = count32(x[3]), p.octets = octets(x);
  p.out_height = count32(y[2]), p.out_width = count32(y[3]);
  p.kernel_h = place32("kernel", kernel[0]), p.kernel_w = place32("kernel", kernel[1]);
  p.stride_h = place32("stride", stride[0]), p.stride_w = place32("stride", stride[1]);
  p.pad_top = place32("pad", pad[0]), p.pad_left = place32("pad", pad[1]);
  p.pad_bottom = place32("pad", pad[2]), p.pad_right = place32("pad", pad[3]);
  p.dilation_h = place32("dilation", dilation[0]), p.dilation_w = place32("dilation", dilation[1]);
  p.average = average ? 1 : 0, p.count_pad = count_pad ? 1 : 0;
  plain(codegen::PlainKernel::pool, y[0] * y[2] * y[3] * octets(y), p, {from.place, to.place},
        Touched{{all_of(from, x)}, {all_of(to, y)}}, describe(net(), *op_),
        [from = from.place, to = to.place](PoolParams& q, const Bases& bases) {
          q.from.memory = address(from, bases), q.to.memory = address(to, bases);
        });
}

void Lowering::operator()(const operators::Pool2d& p) {
  pool({p.kernel.h, p.kernel.w}, {p.stride.h, p.stride.w}, {p.pad.top, p.pad.left, p.pad.bottom, p.pad.right},
       {p.dilation.h, p.dilation.w}, p.average, p.count_pad);
}

void Lowering::operator()(const operators::GlobalAveragePool&) {
  const Sizes& x = sizes(in(0));
  pool({x[2], x[3]}, {1, 1}, {0, 0, 0, 0}, {1, 1}, true, false);
}

void Lowering::operator()(const operators::Resize& r) {
  resize(r, sizes(in(0)), sizes(out()), located(in(0)), located(out()));
}

void Lowering::resize(const operators::Resize& r, const Sizes& x, const Sizes& y, const Located& from,
                      const Located& to) {
  const cpu::AxisTable rows = axis_table(r, x[2], y[2], r.height != 0 ? 0 : r.scale_h);
  const cpu::AxisTable columns = axis_table(r, x[3], y[3], r.width != 0 ? 0 : r.scale_w);
  const bool linear = !rows.weight.empty();
  std::vector<Place> used{from.place, to.place, p_.constants.table(to_int(rows.low)),
                          p_.constants.table(to_int(columns.low))};
  if (linear) {
    used.push_back(p_.constants.table(to_int(rows.high)));
    used.push_back(p_.constants.table(to_int(columns.high)));
    used.push_back(p_.constants.table(rows.weight));
    used.push_back(p_.constants.table(columns.weight));
  }
  ResizeParams p{};
  p.from.pitch = from.pitch, p.to.pitch = to.pitch;
  p.images = count32(x[0]), p.height = count32(x[2]), p.width = count32(x[3]), p.octets = octets(x);
  p.out_height = count32(y[2]), p.out_width = count32(y[3]);
  plain(codegen::PlainKernel::resize, y[0] * y[2] * y[3] * octets(y), p, used,
        Touched{{all_of(from, x)}, {all_of(to, y)}}, enlarges() ? "its image enlarged" : describe(net(), *op_),
        [used, linear](ResizeParams& q, const Bases& bases) {
          const auto at = [&](std::size_t i) { return address(used[i], bases); };
          q.from.memory = at(0), q.to.memory = at(1);
          q.row_low = static_cast<const int*>(at(2)), q.column_low = static_cast<const int*>(at(3));
          if (!linear) return;
          q.row_high = static_cast<const int*>(at(4)), q.column_high = static_cast<const int*>(at(5));
          q.row_weight = static_cast<const float*>(at(6)), q.column_weight = static_cast<const float*>(at(7));
        });
}

// ---- Copies

// Axes in the order of the target's memory; octets where both have eight neighbours together everywhere
void Lowering::copy(Copy c) {
  if (c.extents.size() > kCopyRank) refuse(fmt::format("tensors of rank {}; at most {}", c.extents.size(), kCopyRank));
  std::vector<std::size_t> order(c.extents.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t i, std::size_t j) { return c.to_strides[i] > c.to_strides[j]; });
  const auto last = order.empty() ? 0 : order.back();
  bool wide = !order.empty() && c.to_strides[last] == 1 && c.from_strides[last] == 1 && c.extents[last] % 8 == 0 &&
              c.before[last] == 0 && c.source[last] == c.extents[last] && c.from_offset % 8 == 0 &&
              c.to_offset % 8 == 0;
  for (const std::size_t i : order)
    if (i != last) wide = wide && c.from_strides[i] % 8 == 0 && c.to_strides[i] % 8 == 0;
  const std::int64_t unit = wide ? 8 : 1;
  CopyParams p{};
  std::fill_n(p.extents, kCopyRank, 1), std::fill_n(p.source, kCopyRank, 1);
  std::int64_t count = 1;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::size_t i = order[k], d = kCopyRank - order.size() + k;
    const bool joined = wide && i == last;
    p.extents[d] = count32(joined ? c.extents[i] / 8 : c.extents[i]);
    p.source[d] = count32(joined ? c.source[i] / 8 : c.source[i]);
    place32("extent", std::max(c.extents[i], c.source[i]));  // a kernel's places are signed
    p.before[d] = c.before[i] < 0 ? -place32("crop", -c.before[i]) : place32("pad", c.before[i]);
    p.from_strides[d] = joined ? 1 : c.from_strides[i] / unit, p.to_strides[d] = joined ? 1 : c.to_strides[i] / unit;
    count *= p.extents[d];
  }
  p.count = count32(count);
  const auto number = static_cast<float>(c.value);
  p.value = p_.element == DType::bf16 ? support::float_to_bf16(number) : support::float_to_f16(number);
  plain(wide ? codegen::PlainKernel::copy_octets : codegen::PlainKernel::copy_elements, count, p,
        {c.from.place, c.to.place}, Touched{{all_of(c.read.value_or(in(0)))}, {c.written ? *c.written : all_of(out())}},
        describe(net(), *op_),
        [from = c.from.place, to = c.to.place, from_bytes = 2 * c.from_offset, to_bytes = 2 * c.to_offset](
            CopyParams& q, const Bases& bases) {
          q.from = static_cast<const std::byte*>(address(from, bases)) + from_bytes;
          q.to = static_cast<std::byte*>(address(to, bases)) + to_bytes;
        });
}

// Those inputs that are not written in place
void Lowering::operator()(const operators::Concat& c) {
  const auto axis = static_cast<std::size_t>(c.axis);
  const Sizes to = strides(out());
  std::int64_t offset = 0;
  for (const TensorId id : op_->inputs) {
    const auto& place = p_.fused.placement[id];
    const Sizes& s = sizes(id);
    if (element_count(s) != 0 && (!place || !place->slice || place->base != out()))
      copy({.extents = s,
            .source = s,
            .before = Sizes(s.size(), 0),
            .from = located(id),
            .to = located(out()),
            .from_strides = strides(id),
            .to_strides = to,
            .to_offset = offset * to[axis],
            .read = id});
    offset += s[axis];
  }
}

void Lowering::operator()(const operators::Pad& p) {
  if (p.mode != PadMode::constant) refuse("pads of other modes than constant have no kernel of a GPU");
  copy({.extents = sizes(out()),
        .source = sizes(in(0)),
        .before = p.before,
        .from = located(in(0)),
        .to = located(out()),
        .from_strides = strides(in(0)),
        .to_strides = strides(out()),
        .value = p.value});
}

void Lowering::operator()(const operators::Transpose& t) {
  const Sizes own = strides(in(0));
  Sizes from;
  for (const int i : t.order) from.push_back(own[static_cast<std::size_t>(i)]);
  const Sizes& s = sizes(out());
  copy({.extents = s,
        .source = s,
        .before = Sizes(s.size(), 0),
        .from = located(in(0)),
        .to = located(out()),
        .from_strides = from,
        .to_strides = strides(out())});
}

void Lowering::operator()(const operators::Expand&) {
  const Sizes &x = sizes(in(0)), &y = sizes(out());
  const Sizes own = strides(in(0));
  Sizes from(y.size(), 0);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != 1) from[y.size() - x.size() + i] = own[i];
  copy({.extents = y,
        .source = y,
        .before = Sizes(y.size(), 0),
        .from = located(in(0)),
        .to = located(out()),
        .from_strides = from,
        .to_strides = strides(out())});
}

void Lowering::operator()(const operators::Identity&) {
  const Sizes& s = sizes(out());
  copy({.extents = s,
        .source = s,
        .before = Sizes(s.size(), 0),
        .from = located(in(0)),
        .to = located(out()),
        .from_strides = strides(in(0)),
        .to_strides = strides(out())});
}

void Lowering::operator()(const operators::Slice& s) {
  Sizes from = strides(in(0));
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < s.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(s.axes[i]);
    const SliceRange r = slice_range(sizes(in(0))[axis], s.starts[i], s.ends[i], s.steps[i]);
    offset += r.begin * from[axis];
    from[axis] *= r.count > 1 ? s.steps[i] : 1;
  }
  const Sizes& y = sizes(out());
  copy({.extents = y,
        .source = y,
        .before = Sizes(y.size(), 0),
        .from = located(in(0)),
        .to = located(out()),
        .from_strides = from,
        .to_strides = strides(out()),
        .from_offset = offset});
}

void Lowering::reshape() {
  const Sizes &x = sizes(in(0)), &y = sizes(out());
  if (std::max(x.size(), y.size()) > kCopyRank)
    refuse(fmt::format("tensors of rank {}; at most {}", std::max(x.size(), y.size()), kCopyRank));
  const Located from = located(in(0)), to = located(out());
  ReshapeParams p{};
  const auto set = [](const Sizes& s, const Sizes& along, std::uint32_t(&extents)[kCopyRank],
                      i64(&to_strides)[kCopyRank]) {
    std::fill_n(extents, kCopyRank, 1);
    for (std::size_t i = 0; i < s.size(); ++i) {
      extents[kCopyRank - s.size() + i] = count32(s[i]);
      to_strides[kCopyRank - s.size() + i] = along[i];
    }
  };
  set(x, strides(in(0)), p.from_extents, p.from_strides);
  set(y, strides(out()), p.to_extents, p.to_strides);
  const std::int64_t count = element_count(y);
  p.count = count32(count);
  plain(codegen::PlainKernel::reshape, count, p, {from.place, to.place}, Touched{{all_of(in(0))}, {all_of(out())}},
        describe(net(), *op_), [from = from.place, to = to.place](ReshapeParams& q, const Bases& bases) {
          q.from = address(from, bases), q.to = address(to, bases);
        });
}

}  // namespace unisono::network::gpu
