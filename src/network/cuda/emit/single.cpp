/// Operators that run by themselves.

#include <algorithm>

#include "network/cuda/emit/emission.hpp"
#include "network/infer_tensors.hpp"
#include "network/names.hpp"
#include "network/resize_tables.hpp"
#include "network/space.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

std::uint32_t octets(const Sizes& s) { return count32((column_count(s) + 7) / 8); }

std::vector<int> to_int(const std::vector<std::int64_t>& x) { return {x.begin(), x.end()}; }

struct Window {
  Sizes kernel, stride, pad, dilation;
  bool average = false, count_pad = false;
};

// By the kind of the operator
class SingleOperator {
 public:
  explicit SingleOperator(RegionEmission& e) : e_(e) {}

  void operator()(const operators::Pool2d& p) {
    pool({{p.kernel.h, p.kernel.w},
          {p.stride.h, p.stride.w},
          {p.pad.top, p.pad.left, p.pad.bottom, p.pad.right},
          {p.dilation.h, p.dilation.w},
          p.average,
          p.count_pad});
  }
  void operator()(const operators::GlobalAveragePool&);
  void operator()(const operators::Resize& r) {
    emit_resize(e_, r, x(), y(), e_.tensor(e_.input()), e_.tensor(e_.output()), what());
  }
  void operator()(const operators::Concat& c);
  void operator()(const operators::Pad& p);
  void operator()(const operators::Transpose& t);
  void operator()(const operators::Expand&);
  void operator()(const operators::Slice& s);
  void operator()(const operators::MatMul&) { emit_product(e_); }
  void operator()(const operators::Attention&) { emit_attention(e_); }
  void operator()(const operators::Identity&) { emit_copy(e_, whole_copy()); }
  void operator()(const operators::Map&) { emit_copy(e_, whole_copy()); }  // a cast: kernels have both in 16 bits
  void operator()(const operators::Reshape&) { reshape(); }
  void operator()(const operators::PixelReshape&) { reshape(); }
  void operator()(const operators::Flatten&) { reshape(); }
  void operator()(const operators::ReshapeLike&) { reshape(); }
  void operator()(const auto&) { throw InternalError(where(*e_.op) + ": no plain kernel serves it"); }

 private:
  void pool(const Window& w);
  void reshape();
  // Every element of the output from the one of the first input at the same place
  Copy whole_copy() const;

  std::string what() const { return describe(e_.net(), *e_.op); }
  const Sizes& x() const { return e_.sizes(e_.input()); }
  const Sizes& y() const { return e_.sizes(e_.output()); }

  RegionEmission& e_;
};

PoolParams pool_parameters(const RegionEmission& e, const Window& w, const Sizes& x, const Sizes& y) {
  const auto span = [&](std::size_t axis) { return (w.kernel[axis] - 1) * w.dilation[axis]; };
  e.place32("window span", std::max(span(0), span(1)));
  e.place32("image extent", std::max(x[2], x[3]));
  e.place32("window pixels", w.kernel[0] * w.kernel[1]);
  PoolParams p{};
  p.images = count32(x[0]), p.height = count32(x[2]), p.width = count32(x[3]), p.octets = octets(x);
  p.out_height = count32(y[2]), p.out_width = count32(y[3]);
  p.kernel_h = e.place32("kernel", w.kernel[0]), p.kernel_w = e.place32("kernel", w.kernel[1]);
  p.stride_h = e.place32("stride", w.stride[0]), p.stride_w = e.place32("stride", w.stride[1]);
  p.pad_top = e.place32("pad", w.pad[0]), p.pad_left = e.place32("pad", w.pad[1]);
  p.pad_bottom = e.place32("pad", w.pad[2]), p.pad_right = e.place32("pad", w.pad[3]);
  p.dilation_h = e.place32("dilation", w.dilation[0]), p.dilation_w = e.place32("dilation", w.dilation[1]);
  p.average = w.average ? 1 : 0, p.count_pad = w.count_pad ? 1 : 0;
  return p;
}

void SingleOperator::pool(const Window& w) {
  const PitchedTensor from = e_.tensor(e_.input()), to = e_.tensor(e_.output());
  PoolParams p = pool_parameters(e_, w, x(), y());
  p.from.pitch = from.pitch, p.to.pitch = to.pitch;
  e_.plain(codegen::PlainKernel::pool, y()[0] * y()[2] * y()[3] * octets(y()), p, {from.at, to.at},
           Touched{{all_of(from, x())}, {all_of(to, y())}}, {what()},
           [from = from.at, to = to.at](PoolParams& q, const Bases& bases) {
             q.from.memory = address(from, bases), q.to.memory = address(to, bases);
           });
}

// A CTA has a few octets of an image: as many as make as many CTAs as the GPU has SMs
void SingleOperator::operator()(const operators::GlobalAveragePool&) {
  const PitchedTensor from = e_.tensor(e_.input()), to = e_.tensor(e_.output());
  PoolImagesParams p{};
  p.from.pitch = from.pitch, p.to.pitch = to.pitch;
  p.images = count32(x()[0]), p.pixels = count32(x()[2] * x()[3]), p.octets = octets(x());
  const auto chunks = [&](std::uint32_t width) { return (p.octets + width - 1) / width; };
  p.width = 64;
  while (p.width > 1 && (p.width / 2 >= p.octets || std::int64_t{p.images} * chunks(p.width) < e_.in.device.sms))
    p.width /= 2;
  e_.plain(codegen::PlainKernel::pool_images, std::int64_t{256} * p.images * chunks(p.width), p, {from.at, to.at},
           Touched{{all_of(from, x())}, {all_of(to, y())}}, {what()},
           [from = from.at, to = to.at](PoolImagesParams& q, const Bases& bases) {
             q.from.memory = address(from, bases), q.to.memory = address(to, bases);
           });
}

Copy SingleOperator::whole_copy() const {
  return {.extents = y(),
          .source = y(),
          .before = Sizes(y().size(), 0),
          .from = e_.tensor(e_.input()),
          .to = e_.tensor(e_.output()),
          .from_strides = e_.strides(e_.input()),
          .to_strides = e_.strides(e_.output()),
          .read = e_.all_of(e_.input()),
          .written = e_.all_of(e_.output()),
          .what = what()};
}

// Those inputs that are not written in place
void SingleOperator::operator()(const operators::Concat& c) {
  const auto axis = static_cast<std::size_t>(c.axis);
  const Sizes to = e_.strides(e_.output());
  std::int64_t offset = 0;
  for (const TensorId id : e_.op->inputs) {
    const auto& place = e_.in.fused.placement[id];
    const Sizes& s = e_.sizes(id);
    if (!e_.in.is_empty(id) && (!place || !place->slice || place->base != e_.output()))
      emit_copy(e_, {.extents = s,
                     .source = s,
                     .before = Sizes(s.size(), 0),
                     .from = e_.tensor(id),
                     .to = e_.tensor(e_.output()),
                     .from_strides = e_.strides(id),
                     .to_strides = to,
                     .to_offset = offset * to[axis],
                     .read = e_.all_of(id),
                     .written = e_.all_of(e_.output()),
                     .what = what()});
    offset += s[axis];
  }
}

void SingleOperator::operator()(const operators::Pad& p) {
  Copy c = whole_copy();
  c.source = x(), c.before = p.before, c.value = p.value;
  emit_copy(e_, c);
}

void SingleOperator::operator()(const operators::Transpose& t) {
  Copy c = whole_copy();
  const Sizes own = c.from_strides;
  c.from_strides.clear();
  for (const int i : t.order) c.from_strides.push_back(own[static_cast<std::size_t>(i)]);
  emit_copy(e_, c);
}

void SingleOperator::operator()(const operators::Expand&) {
  Copy c = whole_copy();
  const Sizes own = c.from_strides;
  c.from_strides.assign(y().size(), 0);
  for (std::size_t i = 0; i < x().size(); ++i)
    if (x()[i] != 1) c.from_strides[y().size() - x().size() + i] = own[i];
  emit_copy(e_, c);
}

void SingleOperator::operator()(const operators::Slice& s) {
  Copy c = whole_copy();
  for (std::size_t i = 0; i < s.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(s.axes[i]);
    const SliceRange r = slice_range(s, i, x()[axis]);
    c.from_offset += r.begin * c.from_strides[axis];
    c.from_strides[axis] *= r.count > 1 ? r.step : 1;
  }
  emit_copy(e_, c);
}

// Extents and strides behind ones
void set_axes(const Sizes& s, const Sizes& along, std::uint32_t (&extents)[kCopyRank], i64 (&strides)[kCopyRank]) {
  std::fill_n(extents, kCopyRank, 1);
  for (std::size_t i = 0; i < s.size(); ++i) {
    extents[kCopyRank - s.size() + i] = count32(s[i]);
    strides[kCopyRank - s.size() + i] = along[i];
  }
}

void SingleOperator::reshape() {
  const PitchedTensor from = e_.tensor(e_.input()), to = e_.tensor(e_.output());
  ReshapeParams p{};
  const bool pixels = walks_pixels(e_.op->kind);
  const auto order = [&](const Sizes& of_axes) { return pixels ? pixel_order(of_axes) : of_axes; };
  set_axes(order(x()), order(e_.strides(e_.input())), p.from_extents, p.from_strides);
  set_axes(order(y()), order(e_.strides(e_.output())), p.to_extents, p.to_strides);
  const std::int64_t count = element_count(y());
  p.count = count32(count);
  e_.plain(codegen::PlainKernel::reshape, count, p, {from.at, to.at},
           Touched{{e_.all_of(e_.input())}, {e_.all_of(e_.output())}}, {what()},
           [from = from.at, to = to.at](ReshapeParams& q, const Bases& bases) {
             q.from = address(from, bases), q.to = address(to, bases);
           });
}

}  // namespace

void emit_single(RegionEmission& e) { std::visit(SingleOperator(e), e.op->kind); }

void emit_resize(RegionEmission& e, const operators::Resize& r, const Sizes& x, const Sizes& y,
                 const PitchedTensor& from, const PitchedTensor& to, const std::string& what) {
  const cpu::AxisTable rows = axis_table(r, x[2], y[2], r.height != 0 ? 0 : r.scale_h);
  const cpu::AxisTable columns = axis_table(r, x[3], y[3], r.width != 0 ? 0 : r.scale_w);
  const bool linear = !rows.weight.empty();
  DeviceConstants& constants = e.in.constants;
  std::vector<Location> used{from.at, to.at, constants.table(to_int(rows.low)), constants.table(to_int(columns.low))};
  if (linear)
    for (const Location& table : {constants.table(to_int(rows.high)), constants.table(to_int(columns.high)),
                                  constants.table(rows.weight), constants.table(columns.weight)})
      used.push_back(table);
  ResizeParams p{};
  p.from.pitch = from.pitch, p.to.pitch = to.pitch;
  p.images = count32(x[0]), p.height = count32(x[2]), p.width = count32(x[3]), p.octets = octets(x);
  p.out_height = count32(y[2]), p.out_width = count32(y[3]);
  e.plain(codegen::PlainKernel::resize, y[0] * y[2] * y[3] * octets(y), p, used,
          Touched{{all_of(from, x)}, {all_of(to, y)}}, {what}, [used, linear](ResizeParams& q, const Bases& bases) {
            const auto at = [&](std::size_t i) { return address(used[i], bases); };
            q.from.memory = at(0), q.to.memory = at(1);
            q.row_low = static_cast<const int*>(at(2)), q.column_low = static_cast<const int*>(at(3));
            if (!linear) return;
            q.row_high = static_cast<const int*>(at(4)), q.column_high = static_cast<const int*>(at(5));
            q.row_weight = static_cast<const float*>(at(6)), q.column_weight = static_cast<const float*>(at(7));
          });
}

}  // namespace unisono::network::gpu
