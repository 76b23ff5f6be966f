#include "runtime/cpu/image_primitives.hpp"

#include <algorithm>
#include <type_traits>

#include "runtime/cpu/chains.hpp"

namespace unisono::cpu {

using dnnl::memory;

Window window_of(const Conv2d& c, const Strip& strip) {
  const std::int64_t low = strip.first * c.stride[0] - c.pad[0];
  const std::int64_t high = (strip.first + strip.height - 1) * c.stride[0] - c.pad[0] + (c.r - 1) * c.dilation[0] + 1;
  Window w;
  w.padding = high <= 0 || low >= c.h;
  w.first = std::clamp<std::int64_t>(low, 0, c.h - 1);
  const std::int64_t last = std::clamp<std::int64_t>(high, w.first + 1, std::max(c.h, w.first + 1));
  w.height = last - w.first;
  w.output = strip.height;
  w.pad_top = w.first - low;
  w.pad_bottom = high - last;
  return w;
}

// Output row p gets input row i through filter row r where p + pad = i·stride + r·dilation
Window window_of(const ConvTranspose2d& c, const Strip& strip) {
  const std::int64_t reach = (c.r - 1) * c.dilation[0], stride = c.stride[0];
  const std::int64_t low = strip.first + c.pad[0] - reach, high = strip.first + strip.height - 1 + c.pad[0];
  Window w;
  w.first = low <= 0 ? 0 : std::min((low + stride - 1) / stride, c.h - 1);
  // padding below 0 is no padding: where the filter leaves gaps, one more input row covers them
  if (w.first * stride > strip.first + c.pad[0]) --w.first;
  const std::int64_t last = std::clamp(high / stride + 1, w.first + 1, c.h);
  w.height = last - w.first;
  w.output = strip.height;
  w.pad_top = strip.first + c.pad[0] - w.first * stride;
  w.pad_bottom = (w.height - 1) * stride + reach + 1 - w.pad_top - w.output;
  return w;
}

namespace {

template <class C>
FilterDims dims_of(const C& c) {
  constexpr bool transposed = std::is_same_v<C, ConvTranspose2d>;
  const std::int64_t k = c.k / c.groups, i = c.c / c.groups, area = c.r * c.s;
  const std::int64_t inner = transposed ? k : i, outer = transposed ? i : k;  // in memory: (outer·groups, …, inner)
  const bool nhwc = c.layout == Layout::nhwc;
  const std::int64_t outer_stride = area * inner, inner_stride = nhwc ? 1 : area;
  const std::int64_t row = nhwc ? c.s * inner : c.s, column = nhwc ? inner : 1;
  FilterDims f{{k, i, c.r, c.s},
               {transposed ? inner_stride : outer_stride, transposed ? outer_stride : inner_stride, row, column}};
  if (c.groups > 1) {
    f.dims.insert(f.dims.begin(), c.groups);
    f.strides.insert(f.strides.begin(), outer * outer_stride);
  }
  return f;
}

template <class Forward, class Descriptor>
ImagePrimitive finish(const Descriptor& d) {
  return {Callable(Forward(d), {{DNNL_ARG_SRC, d.src_desc()},
                                {DNNL_ARG_WEIGHTS, d.weights_desc()},
                                {DNNL_ARG_BIAS, d.bias_desc()},
                                {DNNL_ARG_DST, d.dst_desc()},
                                {DNNL_ARG_SCRATCHPAD, d.scratchpad_desc()}}),
          d.weights_desc(), d.scratchpad_desc().get_size(), d.impl_info_str(), 0};
}

// Convolutions by channel over rows at least this wide are faster by oneDNN's older kernel than by the one that it
// proposes first: up to twice where the channels are no multiple of 64, never slower
constexpr std::int64_t wide_rows = 10;

// Moves on to an implementation of this name; false if there is none
bool move_to(dnnl::convolution_forward::primitive_desc& d, const char* name) {
  do {
    if (std::string(d.impl_info_str()).starts_with(name)) return true;
  } while (d.next_impl());
  return false;
}

// One channel a group, and one column whose stride no pixel needs: from 3.7 on the kernel that oneDNN proposes first is
// wrong from the second row on
bool needs_other_kernel(const Conv2d& c, std::int64_t width) {
  return c.c == c.groups && width == 1 && c.stride[1] > 1;
}

void leave_brgemm(dnnl::convolution_forward::primitive_desc& d) {
  dnnl::convolution_forward::primitive_desc other = d;
  while (std::string(other.impl_info_str()).find("brg") != std::string::npos)
    if (!other.next_impl()) return;
  d = other;
}

template <class C>
ImagePrimitive make_primitive(const C& c, const Window& w, std::int64_t width, DType compute, bool with_bias,
                              const memory::desc& weights, Destination into) {
  const SingleThreaded single;
  const Making making;
  const auto type = dnnl_type(compute);
  const memory::desc source({1, c.c, w.height, c.w}, type, memory::format_tag::nhwc);
  const memory::desc destination({1, c.k, w.output, width}, memory::data_type::f32, memory::format_tag::nhwc);
  const memory::dims strides{c.stride[0], c.stride[1]}, dilates{c.dilation[0] - 1, c.dilation[1] - 1};
  const memory::desc bias =
      with_bias ? memory::desc({c.k}, memory::data_type::f32, memory::format_tag::a) : memory::desc();
  const dnnl::primitive_attr attr = with_own_scratchpad(into == Destination::add);
  const auto inference = dnnl::prop_kind::forward_inference;
  const memory::dims before{w.pad_top, c.pad[1]};
  if constexpr (std::is_same_v<C, Conv2d>) {
    // the right padding that gives exactly `width` columns
    const std::int64_t right = (width - 1) * c.stride[1] + (c.s - 1) * c.dilation[1] + 1 - c.w - c.pad[1];
    const auto describe = [&] {
      return dnnl::convolution_forward::primitive_desc(dnnl_engine(), inference, dnnl::algorithm::convolution_direct,
                                                       source, weights, bias, destination, strides, dilates, before,
                                                       {w.pad_bottom, right}, attr);
    };
    if (c.groups == c.c && c.groups == c.k && width >= wide_rows)
      if (auto d = describe(); move_to(d, "jit_dw")) return finish<dnnl::convolution_forward>(d);
    dnnl::convolution_forward::primitive_desc d = describe();
    if (needs_other_kernel(c, width)) leave_brgemm(d);
    return finish<dnnl::convolution_forward>(d);
  } else {
    const std::int64_t right = c.pad[3] - c.output_pad[1];
    return finish<dnnl::deconvolution_forward>(dnnl::deconvolution_forward::primitive_desc(
        dnnl_engine(), inference, dnnl::algorithm::deconvolution_direct, source, weights, bias, destination, strides,
        dilates, before, {w.pad_bottom, right}, attr));
  }
}

// A part has at least so many channels of a group: its image is packed, which costs little beside a filter of several
// taps, or of one tap and as many outputs as this
constexpr std::int64_t fewest_channels = 32, fewest_outputs = 96;

}  // namespace

FilterDims filter_dims(const Conv2d& c) { return dims_of(c); }
FilterDims filter_dims(const ConvTranspose2d& c) { return dims_of(c); }

std::int64_t channel_parts(const Conv2d& c, DType compute) {
  const std::int64_t taps = c.r * c.s, channels = c.c / c.groups;
  const std::int64_t wanted = (channels * taps + longest_chain - 1) / longest_chain;
  if (compute != DType::f32 || (taps == 1 && c.k / c.groups < fewest_outputs)) return 1;
  const auto possible = [&](std::int64_t n) {
    return channels % n == 0 && channels / n % 16 == 0 && channels / n >= fewest_channels;
  };
  for (std::int64_t n = wanted; n <= channels / fewest_channels; ++n)
    if (possible(n)) return n;
  for (std::int64_t n = std::min(wanted, channels / fewest_channels); n > 1; --n)
    if (possible(n)) return n;
  return 1;
}

ImagePrimitive image_primitive(const Conv2d& c, const Window& w, std::int64_t width, DType compute, bool with_bias,
                               const memory::desc& weights, Destination destination) {
  return make_primitive(c, w, width, compute, with_bias, weights, destination);
}

ImagePrimitive image_primitive(const ConvTranspose2d& c, const Window& w, std::int64_t width, DType compute,
                               bool with_bias, const memory::desc& weights, Destination destination) {
  return make_primitive(c, w, width, compute, with_bias, weights, destination);
}

}  // namespace unisono::cpu
