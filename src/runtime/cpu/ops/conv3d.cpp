#include "runtime/cpu/ops/conv3d.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/cpu/chains.hpp"
#include "runtime/cpu/dnnl_support.hpp"
#include "runtime/cpu/scratch.hpp"

namespace unisono::cpu {

namespace {

using dnnl::memory;

// Output channels of a task: enough for oneDNN to keep its registers full, few enough to share a layer out
constexpr std::int64_t task_channels = 32;

// Input channels of a sum's part are a multiple of this
constexpr std::int64_t vector_channels = 16;

// Parts of equal length into which the sum of an output element is divided, by input channels
std::int64_t parts_of_sum(const Volumes& v, const Strided& x, const Strided& w) {
  const std::int64_t channels = x.shape[1], taps = w.shape[2] * w.shape[3] * w.shape[4];
  if (v.groups > 1 || channels % vector_channels != 0) return 1;
  const std::int64_t most = channels / vector_channels;
  std::int64_t n = std::min(most, (channels * taps + longest_chain - 1) / longest_chain);
  while (most % n != 0) ++n;
  return n;
}

memory::desc desc_of(const Extents64& shape, const Extents64& strides) {
  return {shape, memory::data_type::f32, strides};
}

Extents64 strides_of(const Strided& x) {
  Extents64 strides = x.strides;
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (x.shape[i] == 1) strides[i] = 1;  // any will do, and oneDNN refuses some
  return strides;
}

// Values in one order to another
struct Reordering {
  Callable call;  // from, to, scratchpad
  std::size_t scratchpad = 0;
};

Reordering reordering(const memory::desc& from, const memory::desc& to) {
  const dnnl::reorder::primitive_desc d(dnnl_engine(), from, dnnl_engine(), to, with_own_scratchpad());
  const memory::desc pad = d.scratchpad_desc();
  return {Callable(dnnl::reorder(d), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, pad}}),
          pad.get_size()};
}

// What oneDNN computes in one call: output channels of one image, of one group or of several whole groups. Long sums
// take several calls, each with some of the input channels.
struct Part {
  struct Extent {
    std::int64_t groups, in, out;  // channels of a group
  };
  Part(const Volumes& v, const Strided& x, const Strided& w, bool has_bias, const Strided& y, const Extent& e);

  Callable begin, add;  // source, filter, bias (begin only), target, scratchpad
  memory::desc filter, target;
  Reordering read_filter, write;
  std::size_t scratchpad = 0;
};

// The filter's part as (G,K/G,C/G,…); that of a transposed convolution has its channels the other way around
memory::desc filter_desc(const Volumes& v, const Strided& w, const Part::Extent& e) {
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
Callable make_call(dnnl::algorithm algorithm, const Volumes& v, Descs& t, bool adds, std::size_t& scratchpad) {
  Extents64 dilation = v.dilation, after = v.after;
  for (std::size_t i = 0; i < 3; ++i) {
    --dilation[i];
    if (v.transposed) after[i] -= v.output_pad[i];
  }
  const typename Primitive::primitive_desc d(dnnl_engine(), dnnl::prop_kind::forward_inference, algorithm, t.source,
                                             t.filter, t.bias, t.target, v.stride, dilation, v.before, after,
                                             with_own_scratchpad(adds));
  const memory::desc pad = d.scratchpad_desc();
  t.filter = d.weights_desc();
  scratchpad = std::max(scratchpad, pad.get_size());
  return {Primitive(d),
          {{DNNL_ARG_SRC, t.source},
           {DNNL_ARG_WEIGHTS, t.filter},
           {DNNL_ARG_BIAS, t.bias},
           {DNNL_ARG_DST, t.target},
           {DNNL_ARG_SCRATCHPAD, pad}}};
}

Part::Part(const Volumes& v, const Strided& x, const Strided& w, bool has_bias, const Strided& y, const Extent& e) {
  constexpr auto f32 = memory::data_type::f32;
  Extents64 from = x.shape, to = y.shape;
  from[0] = to[0] = 1;
  from[1] = e.in * e.groups;
  to[1] = e.out * e.groups;
  const memory::desc plain = filter_desc(v, w, e);
  // channels innermost: the order for which oneDNN has its best kernels, whatever the number of channels
  Descs t{{from, f32, memory::format_tag::ndhwc},
          {plain.get_dims(), f32, memory::format_tag::any},
          has_bias ? memory::desc({to[1]}, f32, memory::format_tag::a) : memory::desc(),
          {to, f32, memory::format_tag::ndhwc}};
  const auto make = [&](bool adds) {
    return v.transposed
               ? make_call<dnnl::deconvolution_forward>(dnnl::algorithm::deconvolution_direct, v, t, adds, scratchpad)
               : make_call<dnnl::convolution_forward>(dnnl::algorithm::convolution_direct, v, t, adds, scratchpad);
  };
  begin = make(false);
  t.bias = memory::desc();
  if (e.in < x.shape[1] / v.groups) add = make(true);
  filter = t.filter, target = t.target;
  read_filter = reordering(plain, filter);
  write = reordering(target, desc_of(to, strides_of(y)));
}

// Groups of a part, and the output channels of each: some of the only group's, or whole groups
std::pair<std::int64_t, std::int64_t> part_of(const Volumes& v, std::int64_t channels) {
  if (v.groups == 1) return {1, std::min(channels, task_channels)};
  const std::int64_t each = channels / v.groups;
  std::int64_t groups = std::clamp<std::int64_t>(task_channels / each, 1, v.groups);
  while (v.groups % groups != 0) --groups;
  return {groups, each};
}

// A slice of an image's depth: from the tensor, and into the order that a part reads
Reordering slice_reordering(const Strided& x, std::int64_t channels) {
  const Extents64 shape{1, channels, 1, x.shape[3], x.shape[4]}, from = strides_of(x);
  return reordering(desc_of(shape, {1, channels == 1 ? 1 : from[1], 1, from[3], from[4]}),
                    desc_of(shape, {1, 1, 1, x.shape[4] * channels, channels}));
}

}  // namespace

struct Conv3d::State {
  State(const Volumes& v, const Strided& from, const Strided& filter, bool bias, const Strided& to, bool constant);

  void read_filters(const float* from, std::byte* filters, const Parallel& parallel) const;
  void read_images(const float* from, float* images, const Parallel& parallel) const;
  void multiply(const float* images, const std::byte* filters, const float* bias, float* to, const Parallel&) const;
  void run_part(std::int64_t image, std::int64_t number, const float* images, const std::byte* filters,
                const float* bias, float* to) const;

  const Part& part(std::int64_t number) const { return number == parts - 1 ? last : first; }
  std::size_t filter_bytes() const { return aligned_size(first.filter.get_size()); }  // of a part and summand
  std::int64_t source_elements() const { return in_channels * x.shape[2] * x.shape[3] * x.shape[4]; }

  Strided x, w, y;
  bool is_constant;
  std::int64_t groups, channels;           // of a part; the last one may have fewer channels
  std::int64_t parts;                      // of an image
  std::int64_t summands;                   // parts of a sum
  std::int64_t sources;                    // parts of an image that is read: one a summand, or one a part of the result
  std::int64_t in_channels;                // of a source
  std::int64_t filter_step, summand_step;  // elements from one's filter to the next one's
  Part first, last;
  Reordering read_slice;
  std::once_flag once;
  AlignedBuffer constant_filters;
};

Conv3d::State::State(const Volumes& v, const Strided& from, const Strided& filter, bool bias, const Strided& to,
                     bool constant)
    : x(from),
      w(filter),
      y(to),
      is_constant(constant),
      groups(part_of(v, to.shape[1]).first),
      channels(part_of(v, to.shape[1]).second * groups),
      parts((to.shape[1] + channels - 1) / channels),
      summands(parts_of_sum(v, from, filter)),
      sources(v.groups == 1 ? summands : parts),
      in_channels(from.shape[1] / sources),
      filter_step(v.groups == 1 ? channels * filter.strides[v.transposed ? 1 : 0]
                                : groups * (filter.shape[0] / v.groups) * filter.strides[0]),
      summand_step(in_channels * filter.strides[v.transposed ? 0 : 1]),
      first(v, from, filter, bias, to, {groups, in_channels / groups, channels / groups}),
      last(v, from, filter, bias, to, {groups, in_channels / groups, (to.shape[1] - (parts - 1) * channels) / groups}),
      read_slice(slice_reordering(from, in_channels)) {}

void Conv3d::State::read_filters(const float* from, std::byte* filters, const Parallel& parallel) const {
  parallel(parts * summands, [&](std::int64_t begin, std::int64_t end) {
    const auto pad = ScratchPool::shared().borrow(std::max(first.read_filter.scratchpad, last.read_filter.scratchpad));
    for (std::int64_t i = begin; i < end; ++i)
      part(i / summands)
          .read_filter.call({from + i / summands * filter_step + i % summands * summand_step,
                             filters + static_cast<std::size_t>(i) * filter_bytes(), pad.data()});
  });
}

void Conv3d::State::read_images(const float* from, float* images, const Parallel& parallel) const {
  const std::int64_t depth = x.shape[2], slice = in_channels * x.shape[3] * x.shape[4];
  parallel(x.shape[0] * sources * depth, [&](std::int64_t begin, std::int64_t end) {
    const auto pad = ScratchPool::shared().borrow(read_slice.scratchpad);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t source = i / depth % sources, image = i / depth / sources;
      const std::int64_t offset = image * x.strides[0] + source * in_channels * x.strides[1] + i % depth * x.strides[2];
      read_slice.call({from + offset, images + i * slice, pad.data()});
    }
  });
}

// Scratch: oneDNN's | the result, channels innermost
void Conv3d::State::run_part(std::int64_t image, std::int64_t number, const float* images, const std::byte* filters,
                             const float* bias, float* to) const {
  const Part& p = part(number);
  const std::size_t pad = aligned_size(std::max(p.scratchpad, p.write.scratchpad));
  const auto lease = ScratchPool::shared().borrow(pad + p.target.get_size());
  std::byte* const result = lease.data() + pad;
  for (std::int64_t i = 0; i < summands; ++i) {
    const std::int64_t source = image * sources + (sources == summands ? i : number);
    const float* const from = images + source * source_elements();
    const std::byte* const filter = filters + static_cast<std::size_t>(number * summands + i) * filter_bytes();
    if (i == 0)
      p.begin({from, filter, bias ? bias + number * channels : nullptr, result, lease.data()});
    else
      p.add({from, filter, nullptr, result, lease.data()});
  }
  p.write.call({result, to + image * y.strides[0] + number * channels * y.strides[1], lease.data()});
}

void Conv3d::State::multiply(const float* images, const std::byte* filters, const float* bias, float* to,
                             const Parallel& parallel) const {
  parallel(y.shape[0] * parts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) run_part(i / parts, i % parts, images, filters, bias, to);
  });
}

Conv3d::Conv3d(const Volumes& v, const Strided& x, const Strided& w, bool has_bias, const Strided& y,
               bool constant_filter) {
  if (count_of(y.shape) == 0) return;
  const SingleThreaded single;
  state_ = std::make_shared<State>(v, x, w, has_bias, y, constant_filter);
}

void Conv3d::run(const void* x, const void* w, const void* bias, void* y, const Parallel& parallel) const {
  if (!state_) return;  // no element
  State& s = *state_;
  const std::size_t images = aligned_size(static_cast<std::size_t>(count_of(s.x.shape)) * sizeof(float));
  const std::size_t filters = s.filter_bytes() * static_cast<std::size_t>(s.parts * s.summands);
  if (s.is_constant)
    std::call_once(s.once, [&] {
      s.constant_filters = AlignedBuffer(filters);
      s.read_filters(static_cast<const float*>(w), s.constant_filters.data(), parallel);
    });
  const auto lease = ScratchPool::shared().borrow(images + (s.is_constant ? 0 : filters));
  if (!s.is_constant) s.read_filters(static_cast<const float*>(w), lease.data() + images, parallel);
  auto* const source = reinterpret_cast<float*>(lease.data());
  s.read_images(static_cast<const float*>(x), source, parallel);
  s.multiply(source, s.is_constant ? s.constant_filters.data() : lease.data() + images, static_cast<const float*>(bias),
             static_cast<float*>(y), parallel);
}

}  // namespace unisono::cpu
