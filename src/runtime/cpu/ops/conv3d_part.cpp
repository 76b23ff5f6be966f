#include "runtime/cpu/ops/conv3d_part.hpp"

#include <algorithm>
#include <utility>

namespace unisono::cpu {

using dnnl::memory;

DepthRange whole_depth(const Volumes& v, const Strided& x, const Strided& y) {
  return {0, y.shape[2], 0, x.shape[2], v.before[0], v.after[0]};
}

std::vector<DepthRange> depth_ranges(const Volumes& v, const Strided& x, const Strided& w, const Strided& y,
                                     std::int64_t wanted) {
  const std::int64_t stride = v.stride[0], reach = v.dilation[0] * (w.shape[2] - 1) + 1;
  // slices that are computed together: a transposed convolution whose taps leave no gap and do not overlap scatters
  // each input slice into `stride` of its own
  const std::int64_t unit = v.transposed ? stride : 1, units = y.shape[2] / unit;
  const bool scatters_apart = reach == stride && v.before[0] == 0 && y.shape[2] == x.shape[2] * stride;
  if (wanted <= 1 || (v.transposed && !scatters_apart)) return {whole_depth(v, x, y)};
  std::vector<DepthRange> ranges;
  const std::int64_t count = std::min(wanted, units);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = i * units / count * unit, end = (i + 1) * units / count * unit;
    DepthRange r{first, end - first, first / stride, (end - first) / stride, 0, 0};
    if (!v.transposed) {
      const std::int64_t low = first * stride - v.before[0], high = (end - 1) * stride - v.before[0] + reach;
      r.in_first = std::max<std::int64_t>(low, 0);
      r.in_count = std::min(high, x.shape[2]) - r.in_first;
      if (r.in_count < 1) return {whole_depth(v, x, y)};
      r.before = r.in_first - low, r.after = high - (r.in_first + r.in_count);
    }
    ranges.push_back(r);
  }
  return ranges;
}

memory::desc desc_of(const Extents64& shape, const Extents64& strides) {
  return {shape, memory::data_type::f32, strides};
}

Extents64 strides_of(const Strided& x) {
  Extents64 strides = x.strides;
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (x.shape[i] == 1) strides[i] = 1;
  return strides;
}

Reordering reordering(const memory::desc& from, const memory::desc& to) {
  const Making making;
  const dnnl::reorder::primitive_desc d(dnnl_engine(), from, dnnl_engine(), to, with_own_scratchpad());
  const memory::desc pad = d.scratchpad_desc();
  return {Callable(dnnl::reorder(d), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, pad}}),
          pad.get_size()};
}

namespace {

// The filter's part as (G,K/G,C/G,…); that of a transposed convolution has its channels the other way around
memory::desc filter_desc(const Volumes& v, const Strided& w, const Conv3dPart::Extent& e) {
  Extents64 shape = w.shape, strides = w.strides;
  shape.insert(shape.begin(), e.groups);
  strides.insert(strides.begin(), strides[0] * (w.shape[0] / v.groups));
  if (v.transposed) std::swap(strides[1], strides[2]);
  shape[1] = e.out, shape[2] = e.in;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == 1) strides[i] = 1;
  return desc_of(shape, strides);
}

struct Descs {
  memory::desc source, filter, bias, target;
};

template <class Primitive>
Callable make_call(dnnl::algorithm algorithm, const Volumes& v, Descs& t, bool adds, Conv3dPart& part) {
  Extents64 dilation = v.dilation, after = v.after;
  for (std::size_t i = 0; i < 3; ++i) {
    --dilation[i];
    if (v.transposed) after[i] -= v.output_pad[i];
  }
  const Making making;
  const typename Primitive::primitive_desc d(dnnl_engine(), dnnl::prop_kind::forward_inference, algorithm, t.source,
                                             t.filter, t.bias, t.target, v.stride, dilation, v.before, after,
                                             with_own_scratchpad(adds));
  const memory::desc pad = d.scratchpad_desc();
  t.filter = d.weights_desc();
  part.scratchpad = std::max(part.scratchpad, pad.get_size());
  part.is_slow = part.is_slow || std::string(d.impl_info_str()).starts_with("ref");
  return {Primitive(d),
          {{DNNL_ARG_SRC, t.source},
           {DNNL_ARG_WEIGHTS, t.filter},
           {DNNL_ARG_BIAS, t.bias},
           {DNNL_ARG_DST, t.target},
           {DNNL_ARG_SCRATCHPAD, pad}}};
}

}  // namespace

Conv3dPart::Conv3dPart(const Volumes& whole, const Strided& x, const Strided& w, bool has_bias, const Strided& y,
                       const Extent& e, const DepthRange& depth, const Conv3dPart* like) {
  constexpr auto f32 = memory::data_type::f32;
  Volumes v = whole;
  v.before[0] = depth.before, v.after[0] = depth.after;
  Extents64 from = x.shape, to = y.shape;
  from[0] = to[0] = 1;
  from[1] = e.in * e.groups, to[1] = e.out * e.groups;
  from[2] = depth.in_count, to[2] = depth.count;
  const memory::desc plain = filter_desc(v, w, e);
  // channels innermost: the order for which oneDNN has its best kernels, whatever the number of channels
  Descs t{{from, f32, memory::format_tag::ndhwc},
          like ? like->filter : memory::desc(plain.get_dims(), f32, memory::format_tag::any),
          has_bias ? memory::desc({to[1]}, f32, memory::format_tag::a) : memory::desc(),
          {to, f32, memory::format_tag::ndhwc}};
  const auto make = [&](bool adds) {
    return v.transposed
               ? make_call<dnnl::deconvolution_forward>(dnnl::algorithm::deconvolution_direct, v, t, adds, *this)
               : make_call<dnnl::convolution_forward>(dnnl::algorithm::convolution_direct, v, t, adds, *this);
  };
  begin = make(false);
  t.bias = memory::desc();
  if (e.in < x.shape[1] / v.groups) add = make(true);
  filter = t.filter, target = t.target;
  read_filter = reordering(plain, filter);
  write = reordering(target, desc_of(to, strides_of(y)));
}

}  // namespace unisono::cpu
