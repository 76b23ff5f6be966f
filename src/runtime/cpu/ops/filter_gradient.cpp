#include "runtime/cpu/ops/filter_gradient.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cpu/ops/conv3d_part.hpp"
#include "runtime/cpu/ops/copy.hpp"

namespace unisono::cpu {

namespace {

using dnnl::memory;

// Images are shared out in at most so many parts, each of which makes a sum of its own
constexpr std::int64_t most_parts = 8;

// Some images of a tensor, as they lie
memory::desc images_of(const Strided& x, std::int64_t images) {
  Strided part = x;
  part.shape[0] = images;
  return desc_of(part.shape, strides_of(part));
}

// The filter as oneDNN sees it: (K,C,R,S), or (G,K/G,C/G,R,S)
std::pair<Extents64, Extents64> filter_of(const Strided& y, std::int64_t groups) {
  Extents64 shape = y.shape, strides = y.strides;
  if (groups > 1) {
    shape.insert(shape.begin(), groups), strides.insert(strides.begin(), strides[0] * (y.shape[0] / groups));
    shape[1] = y.shape[0] / groups;
  }
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == 1) strides[i] = 1;
  return {shape, strides};
}

// What oneDNN computes of some images
struct Part {
  Part(const ConvAttributes& c, const Strided& x, const Strided& g, const Strided& y, std::int64_t images,
       const memory::desc* like);

  Callable sum;  // x, g, filter, scratchpad
  // From the tensors' order; none where that is oneDNN's
  std::optional<Reordering> read_x, read_g;
  memory::desc x, g, filter;
  std::size_t scratchpad = 0;

  std::size_t x_bytes() const { return read_x ? aligned_size(x.get_size()) : 0; }
  std::size_t g_bytes() const { return read_g ? aligned_size(g.get_size()) : 0; }
  std::size_t scratch_bytes() const { return x_bytes() + g_bytes() + aligned_size(scratchpad); }
};

dnnl::convolution_backward_weights::primitive_desc described(const ConvAttributes& c, const memory::desc& x,
                                                             const memory::desc& g, const memory::desc& filter) {
  // what a backward primitive is told of the forward one that it belongs to
  const memory::dims stride{c.stride.h, c.stride.w}, dilation{c.dilation.h - 1, c.dilation.w - 1};
  const memory::dims before{c.pad.top, c.pad.left}, after{c.pad.bottom, c.pad.right};
  const dnnl::convolution_forward::primitive_desc forward(
      dnnl_engine(), dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
      memory::desc(x.get_dims(), memory::data_type::f32, memory::format_tag::any),
      memory::desc(filter.get_dims(), memory::data_type::f32, memory::format_tag::any), memory::desc(),
      memory::desc(g.get_dims(), memory::data_type::f32, memory::format_tag::any), stride, dilation, before, after);
  return {
      dnnl_engine(),        dnnl::algorithm::convolution_direct, x, filter, g, stride, dilation, before, after, forward,
      with_own_scratchpad()};
}

memory::desc in_any_order(const memory::desc& d) {
  return {d.get_dims(), memory::data_type::f32, memory::format_tag::any};
}

Part::Part(const ConvAttributes& c, const Strided& from, const Strided& gradient, const Strided& y, std::int64_t images,
           const memory::desc* like) {
  const Making making;
  const memory::desc plain_x = images_of(from, images), plain_g = images_of(gradient, images);
  const memory::desc wanted =
      like ? *like : in_any_order(desc_of(filter_of(y, c.groups).first, filter_of(y, c.groups).second));
  const auto describe =
      [&](const memory::desc& a,
          const memory::desc& b) -> std::optional<dnnl::convolution_backward_weights::primitive_desc> {
    try {
      auto d = described(c, a, b, wanted);
      if (!std::string(d.impl_info_str()).starts_with("ref")) return d;
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
    return std::nullopt;
  };
  // as they lie, if oneDNN has a kernel for that which is no plain loop
  auto d = describe(plain_x, plain_g);
  if (!d) d = describe(in_any_order(plain_x), in_any_order(plain_g));
  if (!d) d = described(c, in_any_order(plain_x), in_any_order(plain_g), wanted);
  x = d->src_desc(), g = d->diff_dst_desc(), filter = d->diff_weights_desc();
  const memory::desc pad = d->scratchpad_desc();
  scratchpad = pad.get_size();
  sum = Callable(
      dnnl::convolution_backward_weights(*d),
      {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, g}, {DNNL_ARG_DIFF_WEIGHTS, filter}, {DNNL_ARG_SCRATCHPAD, pad}});
  if (x != plain_x) read_x = reordering(plain_x, x), scratchpad = std::max(scratchpad, read_x->scratchpad);
  if (g != plain_g) read_g = reordering(plain_g, g), scratchpad = std::max(scratchpad, read_g->scratchpad);
}

}  // namespace

struct FilterGradient::State {
  State(const ConvAttributes& c, const Strided& from, const Strided& gradient, const Strided& to)
      : x(from),
        g(gradient),
        y(to),
        parts(std::min(from.shape[0], most_parts)),
        larger(c, from, gradient, to, (from.shape[0] + parts - 1) / parts, nullptr),
        smaller(from.shape[0] % parts == 0 ? larger
                                           : Part(c, from, gradient, to, from.shape[0] / parts, &larger.filter)),
        write(reordering(larger.filter, desc_of(filter_of(to, c.groups).first, filter_of(to, c.groups).second))) {}

  // Part i has images [first(i), first(i + 1)); the first parts are the larger ones
  std::int64_t first(std::int64_t i) const {
    const std::int64_t images = x.shape[0];
    return images / parts * i + std::min(i, images % parts);
  }
  const Part& part(std::int64_t i) const { return first(i + 1) - first(i) == first(1) ? larger : smaller; }
  std::size_t filter_bytes() const { return aligned_size(larger.filter.get_size()); }
  std::size_t thread_bytes() const {
    return std::max({larger.scratch_bytes(), smaller.scratch_bytes(), aligned_size(write.scratchpad)});
  }
  void run_part(std::int64_t i, const float* from, const float* gradient, std::byte* filter, std::byte* scratch) const;
  void add_parts(std::byte* filters, const Parallel& parallel) const;

  Strided x, g, y;
  std::int64_t parts;
  Part larger, smaller;
  Reordering write;
};

// Scratch: x and g in oneDNN's order | oneDNN's own
void FilterGradient::State::run_part(std::int64_t i, const float* from, const float* gradient, std::byte* filter,
                                     std::byte* scratch) const {
  const Part& p = part(i);
  const void* a = from + first(i) * x.strides[0];
  const void* b = gradient + first(i) * g.strides[0];
  std::byte *const own_x = scratch, *const own_g = own_x + p.x_bytes(), *const pad = own_g + p.g_bytes();
  if (p.read_x) p.read_x->call({a, own_x, pad}), a = own_x;
  if (p.read_g) p.read_g->call({b, own_g, pad}), b = own_g;
  p.sum({a, b, filter, pad});
}

// Into the first: each element's sums in the order of the parts
void FilterGradient::State::add_parts(std::byte* filters, const Parallel& parallel) const {
  const auto step = static_cast<std::int64_t>(filter_bytes() / sizeof(float));
  auto* const sums = reinterpret_cast<float*>(filters);
  const auto count = static_cast<std::int64_t>(larger.filter.get_size() / sizeof(float));
  parallel(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 1; i < parts; ++i)
      for (std::int64_t k = begin; k < end; ++k) sums[k] += sums[i * step + k];
  });
}

FilterGradient::FilterGradient(const ConvAttributes& convolution, const Strided& x, const Strided& g,
                               const Strided& y) {
  if (count_of(x.shape) == 0 || count_of(g.shape) == 0)
    throw UserError("the gradient of a filter for an image without elements");
  const SingleThreaded single;
  state_ = with_own_errors([&] { return std::make_shared<const State>(convolution, x, g, y); });
}

std::size_t FilterGradient::scratch_bytes(int threads) const {
  return static_cast<std::size_t>(state_->parts) * state_->filter_bytes() +
         static_cast<std::size_t>(threads) * state_->thread_bytes();
}

void FilterGradient::run(const void* x, const void* g, void* y, const Parallel& parallel,
                         const OperatorScratch& scratch) const {
  const State& s = *state_;
  std::byte* const filters = scratch.data;
  ScratchPieces pieces({scratch.data + static_cast<std::size_t>(s.parts) * s.filter_bytes(), scratch.threads},
                       s.thread_bytes());
  parallel(s.parts, [&](std::int64_t begin, std::int64_t end) {
    const auto own = pieces.take();
    for (std::int64_t i = begin; i < end; ++i)
      s.run_part(i, static_cast<const float*>(x), static_cast<const float*>(g),
                 filters + static_cast<std::size_t>(i) * s.filter_bytes(), own.data());
  });
  s.add_parts(filters, parallel);
  const auto own = pieces.take();
  s.write.call({filters, y, own.data()});
}

}  // namespace unisono::cpu
