/// Convolutions and transposed convolutions by oneDNN, strip by strip.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <type_traits>
#include <vector>

#include "coda/error.hpp"
#include "runtime/cpu/block_io.hpp"
#include "runtime/cpu/contraction_sources.hpp"
#include "runtime/cpu/dnnl_support.hpp"
#include "runtime/cpu/views.hpp"

namespace coda::cpu {

namespace {

using dnnl::memory;

// Which input rows a strip of output rows reads, and the padding that is left above and below them
struct Window {
  std::int64_t first = 0, height = 0;  // input rows
  std::int64_t output = 0;             // output rows
  std::int64_t pad_top = 0, pad_bottom = 0;

  auto geometry() const { return std::tuple(height, output, pad_top, pad_bottom); }
};

Window window_of(const Conv2d& c, const Strip& strip) {
  const std::int64_t low = strip.first * c.stride[0] - c.pad[0];
  const std::int64_t high = (strip.first + strip.height - 1) * c.stride[0] - c.pad[0] + (c.r - 1) * c.dilation[0] + 1;
  Window w;
  w.first = std::clamp<std::int64_t>(low, 0, c.h - 1);  // a strip of padding alone still reads one row
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

// Dimensions of the filter for oneDNN: ([groups,] outputs, inputs, R, S)
struct FilterDims {
  memory::dims dims, strides;  // strides of the caller's dense filter
};

template <class C>
FilterDims filter_dims(const C& c) {
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

struct Primitive {
  Callable call;  // source, filter, bias, destination, scratchpad
  memory::desc weights;
  std::size_t scratchpad = 0;  // bytes
  std::string implementation;
  std::size_t filter = 0;  // which of the filter's packings it reads
};

// oneDNN's plain loops, for what it has no kernel for
bool is_slow(const Primitive& p) { return p.implementation.starts_with("ref"); }

template <class Forward, class Descriptor>
Primitive finish(const Descriptor& d) {
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

template <class C>
Primitive make_primitive(const C& c, const Window& w, std::int64_t width, DType compute, bool with_bias,
                         const memory::desc& weights) {
  const SingleThreaded single;
  const auto type = dnnl_type(compute);
  const memory::desc source({1, c.c, w.height, c.w}, type, memory::format_tag::nhwc);
  const memory::desc destination({1, c.k, w.output, width}, memory::data_type::f32, memory::format_tag::nhwc);
  const memory::dims strides{c.stride[0], c.stride[1]}, dilates{c.dilation[0] - 1, c.dilation[1] - 1};
  const memory::desc bias =
      with_bias ? memory::desc({c.k}, memory::data_type::f32, memory::format_tag::a) : memory::desc();
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
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
    return finish<dnnl::convolution_forward>(describe());
  } else {
    const std::int64_t right = c.pad[3] - c.output_pad[1];
    return finish<dnnl::deconvolution_forward>(dnnl::deconvolution_forward::primitive_desc(
        dnnl_engine(), inference, dnnl::algorithm::deconvolution_direct, source, weights, bias, destination, strides,
        dilates, before, {w.pad_bottom, right}, attr));
  }
}

template <class C>
class ImageContraction final : public AccumulatorSource {
 public:
  ImageContraction(const C& c, bool with_bias, const Tiling& tiling, const CompileOptions& options,
                   const VectorUnit& unit);

  std::size_t run_scratch() const override {
    return constant_ ? 0 : packed_filter_bytes_ + filters_.front().weights.dense_bytes();
  }
  std::size_t worker_scratch() const override { return scratchpad_bytes_ + packed_input_bytes_; }
  void check(const Arguments& arguments) const override;
  void prepare(const Arguments& arguments, std::byte* run_scratch) const override;
  void compute(const Arguments& arguments, const Strip& strip, const float* bias, float* acc,
               const std::byte* run_scratch, std::byte* worker_scratch) const override;
  std::string describe() const override;

 private:
  void build(DType compute);
  void add_primitive(const Window& w, const memory::desc& any);
  void add_filters(const memory::desc& plain);
  const void* source_rows(const ConstTensorView& x, const Strip& strip, const Window& w, std::byte* packed) const;

  C c_;
  bool with_bias_;
  Tiling tiling_;
  std::int64_t width_;
  DType compute_ = DType::f32;
  std::map<decltype(Window().geometry()), Primitive> primitives_;
  struct Filter {
    memory::desc format;
    PackedWeights weights;
    AlignedBuffer constant;
    std::size_t offset = 0;  // in the scratch of a run
  };
  std::vector<Filter> filters_;
  bool constant_ = false;
  std::size_t packed_filter_bytes_ = 0;
  std::size_t scratchpad_bytes_ = 0, packed_input_bytes_ = 0;
  const VectorUnit& unit_;
};

template <class C>
ImageContraction<C>::ImageContraction(const C& c, bool with_bias, const Tiling& tiling, const CompileOptions& options,
                                      const VectorUnit& unit)
    : c_(c), with_bias_(with_bias), tiling_(tiling), width_(tiling.extents().width), unit_(unit) {
  require_contraction_dtype(c.dtype_x, "the image of " + to_string(Contraction(c)));
  require_contraction_dtype(c.dtype_w, "the filter of " + to_string(Contraction(c)));
  try {
    build(c.dtype_x == DType::bf16 && c.dtype_w == DType::bf16 ? DType::bf16 : DType::f32);
  } catch (const dnnl::error& e) {
    if (c.dtype_x != DType::bf16 || c.dtype_w != DType::bf16)
      throw Unsupported(fmt::format("{}. On the CPU:\n  oneDNN: {}", to_string(Contraction(c)), e.what()));
    primitives_.clear();
    filters_.clear();
    build(DType::f32);  // no bf16 instructions: said by describe()
  }
  if (options.constant_b) {
    const auto dtypes = accepted_dtypes(c.dtype_w);
    checked_strides(*options.constant_b, shape_b(Contraction(c)), dtypes, "the constant filter (constant_b)");
    constant_ = true;
    for (Filter& f : filters_) {
      f.constant = AlignedBuffer(f.weights.packed_bytes());
      const AlignedBuffer dense(f.weights.dense_bytes());
      f.weights.pack(*options.constant_b, dense.data(), f.constant.data());
    }
  }
}

template <class C>
void ImageContraction<C>::build(DType compute) {
  compute_ = compute;
  const FilterDims filter = filter_dims(c_);
  const auto type = dnnl_type(compute);
  const memory::desc any(filter.dims, type, memory::format_tag::any), plain(filter.dims, type, filter.strides);
  // the strip in the middle of the image is the most frequent one: it chooses the format of the filter
  add_primitive(window_of(c_, tiling_.strip(tiling_.strips_per_image() / 2)), any);
  for (std::int64_t i = 0; i < tiling_.strips_per_image(); ++i) {
    const Window w = window_of(c_, tiling_.strip(i));
    if (!primitives_.contains(w.geometry())) add_primitive(w, any);
    packed_input_bytes_ = std::max(packed_input_bytes_,
                                   aligned_size(static_cast<std::size_t>(w.height * c_.w * c_.c) * size_of(compute)));
  }
  add_filters(plain);
}

// A strip of another height reads the filter in the first one's format; where oneDNN has no kernel for that, in the
// format that it prefers, so that the filter is packed twice
template <class C>
void ImageContraction<C>::add_primitive(const Window& w, const memory::desc& any) {
  Primitive p = make_primitive(c_, w, width_, compute_, with_bias_, filters_.empty() ? any : filters_.front().format);
  if (!filters_.empty() && is_slow(p)) {
    Primitive own = make_primitive(c_, w, width_, compute_, with_bias_, any);
    if (!is_slow(own)) p = std::move(own);
  }
  while (p.filter < filters_.size() && filters_[p.filter].format != p.weights) ++p.filter;
  if (p.filter == filters_.size()) filters_.push_back({p.weights, {}, {}, 0});
  scratchpad_bytes_ = std::max(scratchpad_bytes_, aligned_size(p.scratchpad));
  primitives_.emplace(w.geometry(), std::move(p));
}

template <class C>
void ImageContraction<C>::add_filters(const memory::desc& plain) {
  packed_filter_bytes_ = 0;
  for (Filter& f : filters_) {
    f.weights = PackedWeights(shape_b(Contraction(c_)), compute_, plain, f.format, unit_);
    f.offset = packed_filter_bytes_;
    packed_filter_bytes_ += f.weights.packed_bytes();
  }
}

template <class C>
void ImageContraction<C>::check(const Arguments& arguments) const {
  const auto dtypes_x = accepted_dtypes(c_.dtype_x), dtypes_w = accepted_dtypes(c_.dtype_w);
  const auto what = to_string(Contraction(c_));
  checked_strides(arguments.a, shape_a(Contraction(c_)), dtypes_x, "the image (a) of " + what);
  if (!constant_) checked_strides(arguments.b, shape_b(Contraction(c_)), dtypes_w, "the filter (b) of " + what);
}

template <class C>
void ImageContraction<C>::prepare(const Arguments& arguments, std::byte* run_scratch) const {
  if (constant_) return;
  for (const Filter& f : filters_)
    f.weights.pack(arguments.b, run_scratch + packed_filter_bytes_, run_scratch + f.offset);
}

// The window's rows as dense (height, W, C) in the compute type: in place if they stand so in memory
template <class C>
const void* ImageContraction<C>::source_rows(const ConstTensorView& x, const Strip& strip, const Window& w,
                                             std::byte* packed) const {
  const PixelStrides s = pixel_strides(x.strides.empty() ? row_major_strides(x.shape) : x.strides, c_.layout);
  const auto* base = element(x.data, strip.image * s.image + w.first * s.row, x.dtype);
  const bool same_type = size_of(x.dtype) == size_of(compute_) && (x.dtype == DType::bf16) == (compute_ == DType::bf16);
  if (same_type && (c_.c == 1 || s.col == 1) && (c_.w == 1 || s.pixel == c_.c) &&
      (w.height == 1 || s.row == c_.w * c_.c))
    return base;
  if (compute_ == DType::f32) {
    const Extents image{.images = c_.n, .height = c_.h, .width = c_.w, .cols = c_.c};
    const BoundTensor from{.data = x.data, .dtype = x.dtype, .strides = s};
    load_block(unit_, from, image, {strip.image, w.first * c_.w, w.height * c_.w}, c_.c, false, packed);
    return packed;
  }
  const auto channels = static_cast<std::size_t>(c_.c);
  for (std::int64_t h = 0; h < w.height; ++h)
    for (std::int64_t q = 0; q < c_.w; ++q)
      convert_run(unit_, element(base, h * s.row + q * s.pixel, x.dtype), x.dtype, s.col, channels,
                  element(static_cast<void*>(packed), (h * c_.w + q) * c_.c, compute_), compute_);
  return packed;
}

template <class C>
void ImageContraction<C>::compute(const Arguments& arguments, const Strip& strip, const float* bias, float* acc,
                                  const std::byte* run_scratch, std::byte* worker_scratch) const {
  const Window w = window_of(c_, strip);
  const Primitive& p = primitives_.at(w.geometry());
  const void* source = source_rows(arguments.a, strip, w, worker_scratch + scratchpad_bytes_);
  const Filter& f = filters_[p.filter];
  p.call({source, constant_ ? f.constant.data() : run_scratch + f.offset, bias, acc, worker_scratch});
}

template <class C>
std::string ImageContraction<C>::describe() const {
  std::string s = fmt::format("oneDNN {}, {}", to_string(compute_), primitives_.begin()->second.implementation);
  for (const auto& [geometry, p] : primitives_)
    if (p.implementation != primitives_.begin()->second.implementation) s += " and " + p.implementation;
  s +=
      fmt::format("{}; filter {}{}", with_bias_ ? ", bias added" : "", constant_ ? "packed once" : "packed at each run",
                  c_.layout == Layout::nchw ? "; channels-first image packed by strip" : "");
  if (const auto note = conversion_note(c_.dtype_x, c_.dtype_w, compute_); !note.empty()) s += "; " + note;
  if (c_.dtype_x == DType::bf16 && c_.dtype_w == DType::bf16 && compute_ == DType::f32)
    s += " (oneDNN has no bf16 convolution for this processor)";
  return s;
}

}  // namespace

std::unique_ptr<AccumulatorSource> image_source(const Conv2d& c, bool with_bias, const Tiling& tiling,
                                                const CompileOptions& options, const VectorUnit& unit) {
  return std::make_unique<ImageContraction<Conv2d>>(c, with_bias, tiling, options, unit);
}

std::unique_ptr<AccumulatorSource> image_source(const ConvTranspose2d& c, bool with_bias, const Tiling& tiling,
                                                const CompileOptions& options, const VectorUnit& unit) {
  return std::make_unique<ImageContraction<ConvTranspose2d>>(c, with_bias, tiling, options, unit);
}

}  // namespace coda::cpu
