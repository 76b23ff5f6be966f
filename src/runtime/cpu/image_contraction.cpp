/// Convolutions of images and volumes, and transposed ones of images, by oneDNN, strip by strip.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "runtime/cpu/block_io.hpp"
#include "runtime/cpu/constant_buffer.hpp"
#include "runtime/cpu/contraction_sources.hpp"
#include "runtime/cpu/dnnl_support.hpp"
#include "runtime/cpu/image_primitives.hpp"
#include "runtime/cpu/planes.hpp"
#include "runtime/cpu/views.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

using dnnl::memory;

// `C`: the contraction
template <class C>
class ImageContraction final : public AccumulatorSource {
 public:
  ImageContraction(const C& c, bool with_bias, const Tiling& tiling, const CompileOptions& options,
                   const VectorUnit& unit, DType compute);

  std::size_t run_scratch() const override {
    return constant_ || filters_.empty() ? 0 : packed_filter_bytes_ + filters_.front().weights.front().dense_bytes();
  }
  std::size_t worker_scratch() const override { return scratchpad_bytes_ + packed_input_bytes_; }
  void check(const Arguments& arguments) const override;
  void prepare(const Arguments& arguments, std::byte* run_scratch) const override;
  void compute(const Arguments& arguments, const Strip& strip, const float* bias, float* acc,
               const std::byte* run_scratch, std::byte* worker_scratch) const override;
  std::string describe() const override;

 private:
  void build(DType compute, std::int64_t parts);
  void add_primitive(const Window& w, const memory::desc& any);
  void add_filters();
  bool is_slow() const;
  const void* source_rows(const ConstTensorView& x, std::int64_t image, std::int64_t plane, const Window& w,
                          std::int64_t part, std::byte* packed) const;
  void compute_piece(const Arguments& arguments, const Piece& piece, const float* bias, float* acc,
                     const std::byte* run_scratch, std::byte* worker_scratch) const;
  void fill_with_bias(const Window& w, const float* bias, float* acc) const;
  void pack_groups(const BoundTensor& from, std::int64_t rows, std::byte* packed) const;

  using Plane = decltype(in_plane(std::declval<const C&>()));
  const C whole_;
  Plane c_;  // of a plane
  Taps taps_;
  Plane part_;              // of one part of the input channels
  std::int64_t parts_ = 1;  // how many parts the input channels have
  bool with_bias_;
  Tiling tiling_;
  std::int64_t width_;
  DType compute_ = DType::f32;
  struct Pair {
    ImagePrimitive first, next;  // for the first tap and part of the channels, and for the others, which add to it
  };
  std::map<decltype(Window().geometry()), Pair> primitives_;
  struct Filter {
    memory::desc format;
    std::vector<PackedWeights> weights;  // by taps, and by parts of the channels within
    std::shared_ptr<const AlignedBuffer> constant;
    std::size_t offset = 0;  // in the scratch of a run

    std::size_t part_bytes() const { return weights.front().packed_bytes(); }
    std::size_t bytes() const { return part_bytes() * weights.size(); }
  };
  void pack(const Filter& f, const ConstTensorView& view, std::byte* dense, std::byte* packed) const;
  std::vector<Filter> filters_;
  bool constant_ = false;
  std::size_t packed_filter_bytes_ = 0;
  std::size_t scratchpad_bytes_ = 0, packed_input_bytes_ = 0;
  const VectorUnit& unit_;
};

template <class C>
ImageContraction<C>::ImageContraction(const C& c, bool with_bias, const Tiling& tiling, const CompileOptions& options,
                                      const VectorUnit& unit, DType compute)
    : whole_(c),
      c_(in_plane(c)),
      taps_(taps_of(c, tiling.extents())),
      part_(c_),
      with_bias_(with_bias),
      tiling_(tiling),
      width_(tiling.extents().width),
      unit_(unit) {
  require_contraction_dtype(c.dtype_x, "the image of " + to_string(Contraction(c)));
  require_contraction_dtype(c.dtype_w, "the filter of " + to_string(Contraction(c)));
  try {
    build(compute, channel_parts(c_, compute));
    if (parts_ > 1 && is_slow()) build(compute, 1);
    const bool is_rounded = compute == DType::bf16 && c.dtype_x == DType::f32;
    if (is_rounded && is_slow()) build(DType::f32, channel_parts(c_, DType::f32));
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    if (compute == DType::f32)
      throw Unsupported(fmt::format("{}. On the CPU:\n  oneDNN: {}", to_string(Contraction(c)), e.what()));
    build(DType::f32, channel_parts(c_, DType::f32));  // no bf16 instructions: said by describe()
  }
  if (options.constant_filter) {
    const auto dtypes = accepted_dtypes(c.dtype_w);
    checked_strides(*options.constant_filter, shape_b(Contraction(c)), dtypes, "the constant filter (constant_filter)");
    constant_ = true;
    for (Filter& f : filters_) {
      const AlignedBuffer dense(f.weights.front().dense_bytes());
      f.constant = constant_buffer(f.bytes(),
                                   [&](std::byte* packed) { pack(f, *options.constant_filter, dense.data(), packed); });
    }
  }
}

template <class C>
void ImageContraction<C>::build(DType compute, std::int64_t parts) {
  primitives_.clear();
  filters_.clear();
  compute_ = compute;
  parts_ = parts;
  part_.c = c_.c / parts;
  const memory::desc any(filter_dims(part_).dims, dnnl_type(compute), memory::format_tag::any);
  const auto add_strip = [&](std::int64_t i) {
    for_pieces(tiling_.strip(i), taps_.rows, [&](const Piece& piece) {
      const Window w = window_of(c_, piece.rows);
      if (w.padding || primitives_.contains(w.geometry())) return;
      add_primitive(w, any);
      packed_input_bytes_ = std::max(
          packed_input_bytes_, aligned_size(static_cast<std::size_t>(w.height * c_.w * part_.c) * size_of(compute)));
    });
  };
  // the strip in the middle of the image is the most frequent one: it chooses the format of the filter
  add_strip(tiling_.strips_per_image() / 2);
  for (std::int64_t i = 0; i < tiling_.strips_per_image(); ++i) add_strip(i);
  add_filters();
}

// A strip of another height reads the filter in the first one's format; where oneDNN has no kernel for that, in the
// format that it prefers, so that the filter is packed twice
template <class C>
void ImageContraction<C>::add_primitive(const Window& w, const memory::desc& any) {
  const auto make = [&](const memory::desc& weights, bool with_bias, Destination destination) {
    return image_primitive(part_, w, width_, compute_, with_bias, weights, destination);
  };
  ImagePrimitive p = make(filters_.empty() ? any : filters_.front().format, with_bias_, Destination::overwrite);
  if (!filters_.empty() && p.is_slow()) {
    ImagePrimitive own = make(any, with_bias_, Destination::overwrite);
    if (!own.is_slow()) p = std::move(own);
  }
  while (p.filter < filters_.size() && filters_[p.filter].format != p.weights) ++p.filter;
  if (p.filter == filters_.size()) filters_.push_back({p.weights, {}, nullptr, 0});
  ImagePrimitive next = parts_ * taps_.count > 1 ? make(p.weights, false, Destination::add) : ImagePrimitive{};
  scratchpad_bytes_ = std::max({scratchpad_bytes_, aligned_size(p.scratchpad), aligned_size(next.scratchpad)});
  primitives_.emplace(w.geometry(), Pair{std::move(p), std::move(next)});
}

template <class C>
bool ImageContraction<C>::is_slow() const {
  return std::any_of(primitives_.begin(), primitives_.end(),
                     [](const auto& p) { return p.second.first.is_slow() || p.second.next.is_slow(); });
}

template <class C>
void ImageContraction<C>::add_filters() {
  packed_filter_bytes_ = 0;
  FilterDims whole = filter_dims(c_);
  const std::size_t inputs = whole.dims.size() - 3;
  // a tap's plane stands in the filter as one of an image does, but for the step from output to output
  for (std::size_t i = 0; i < inputs; ++i) whole.strides[i] *= taps_.count;
  const std::int64_t tap_elements = c_.r * c_.s * (c_.c / c_.groups);
  const memory::desc plain(filter_dims(part_).dims, dnnl_type(compute_), whole.strides);
  for (Filter& f : filters_) {
    for (std::int64_t i = 0; i < taps_.count * parts_; ++i)
      f.weights.emplace_back(shape_b(Contraction(whole_)), compute_, plain, f.format, unit_,
                             i / parts_ * tap_elements + i % parts_ * (part_.c / c_.groups) * whole.strides[inputs]);
    f.offset = packed_filter_bytes_;
    packed_filter_bytes_ += f.bytes();
  }
}

template <class C>
void ImageContraction<C>::pack(const Filter& f, const ConstTensorView& view, std::byte* dense,
                               std::byte* packed) const {
  for (const PackedWeights& part : f.weights) {
    part.pack(view, dense, packed);
    packed += f.part_bytes();
  }
}

template <class C>
void ImageContraction<C>::check(const Arguments& arguments) const {
  const auto dtypes_x = accepted_dtypes(c_.dtype_x), dtypes_w = accepted_dtypes(c_.dtype_w);
  const auto what = to_string(Contraction(whole_));
  checked_strides(arguments.image, shape_a(Contraction(whole_)), dtypes_x, "the image of " + what);
  if (!constant_) checked_strides(arguments.filter, shape_b(Contraction(whole_)), dtypes_w, "the filter of " + what);
}

template <class C>
void ImageContraction<C>::prepare(const Arguments& arguments, std::byte* run_scratch) const {
  if (constant_) return;
  for (const Filter& f : filters_)
    pack(f, arguments.filter, run_scratch + packed_filter_bytes_, run_scratch + f.offset);
}

// Rows of a part of each group's channels as dense (rows, W, groups, C) floats; `from` begins at the part of the first
// group
template <class C>
void ImageContraction<C>::pack_groups(const BoundTensor& from, std::int64_t rows, std::byte* packed) const {
  const PixelStrides& s = from.strides;
  const std::int64_t channels = part_.c / c_.groups;
  const auto width = static_cast<std::size_t>(c_.w), count = static_cast<std::size_t>(channels);
  const bool is_f32 = from.dtype == DType::f32 || from.dtype == DType::tf32;
  for (std::int64_t h = 0; h < rows; ++h)
    for (std::int64_t g = 0; g < c_.groups; ++g) {
      const void* source = element(from.data, h * s.row + g * (c_.c / c_.groups) * s.col, from.dtype);
      float* target = reinterpret_cast<float*>(packed) + h * c_.w * part_.c + g * channels;
      if (is_f32 && s.col == 1)
        unit_.copy_rows(static_cast<const float*>(source), s.pixel, target, part_.c, width, count);
      else if (is_f32 && s.pixel == 1)
        unit_.transpose(static_cast<const float*>(source), s.col, target, part_.c, count, width);
      else
        for (std::int64_t q = 0; q < c_.w; ++q)
          load_floats(unit_, element(source, q * s.pixel, from.dtype), from.dtype, s.col, count, target + q * part_.c);
    }
}

// The window's rows of a part of the channels as dense (height, W, C) in the compute type: in place if they stand so in
// memory
template <class C>
const void* ImageContraction<C>::source_rows(const ConstTensorView& x, std::int64_t image, std::int64_t plane,
                                             const Window& w, std::int64_t part, std::byte* packed) const {
  const auto [s, of_plane] =
      x.strides.empty() ? plane_strides(row_major_strides(x.shape), c_.layout) : plane_strides(x.strides, c_.layout);
  const auto* first =
      element(x.data, part * (part_.c / c_.groups) * s.col + image * s.image + plane * of_plane, x.dtype);
  const auto* base = element(first, w.first * s.row, x.dtype);
  const bool same_type = size_of(x.dtype) == size_of(compute_) && (x.dtype == DType::bf16) == (compute_ == DType::bf16);
  if (same_type && (part_.c == 1 || s.col == 1) && (c_.w == 1 || s.pixel == part_.c) &&
      (w.height == 1 || s.row == c_.w * part_.c))
    return base;
  if (parts_ > 1 && c_.groups > 1) {
    pack_groups({.data = base, .dtype = x.dtype, .strides = s}, w.height, packed);
    return packed;
  }
  if (compute_ == DType::f32) {
    const Extents extents{.images = 1, .height = c_.h, .width = c_.w, .cols = part_.c};
    const BoundTensor from{.data = first, .dtype = x.dtype, .strides = s};
    load_block(unit_, from, extents, {0, w.first * c_.w, w.height * c_.w}, part_.c, false, packed);
    return packed;
  }
  const bool is_dense = s.col == 1 && s.pixel == part_.c;  // pixels of an image row follow one another
  const std::int64_t runs = is_dense ? 1 : c_.w, length = is_dense ? c_.w * part_.c : part_.c;
  for (std::int64_t h = 0; h < w.height; ++h)
    for (std::int64_t q = 0; q < runs; ++q)
      convert_run(unit_, element(base, h * s.row + q * s.pixel, x.dtype), x.dtype, s.col,
                  static_cast<std::size_t>(length),
                  element(static_cast<void*>(packed), (h * c_.w + q) * part_.c, compute_), compute_);
  return packed;
}

// oneDNN has no convolution of padding alone
template <class C>
void ImageContraction<C>::fill_with_bias(const Window& w, const float* bias, float* acc) const {
  for (std::int64_t pixel = 0; pixel < w.output * width_; ++pixel, acc += c_.k) {
    if (with_bias_)
      std::copy_n(bias, c_.k, acc);
    else
      std::fill_n(acc, c_.k, 0.0f);
  }
}

template <class C>
void ImageContraction<C>::compute_piece(const Arguments& arguments, const Piece& piece, const float* bias, float* acc,
                                        const std::byte* run_scratch, std::byte* worker_scratch) const {
  const Window w = window_of(c_, piece.rows);
  if (w.padding) return fill_with_bias(w, bias, acc);
  const auto& [first, next] = primitives_.at(w.geometry());
  const Filter& f = filters_[first.filter];
  const std::byte* filters = constant_ ? f.constant->data() : run_scratch + f.offset;
  bool begun = false;
  for (std::int64_t i = 0; i < taps_.count * parts_; ++i) {
    const auto plane = taps_.plane(piece.plane, i / parts_);
    if (!plane) continue;
    const void* source =
        source_rows(arguments.image, piece.rows.image, *plane, w, i % parts_, worker_scratch + scratchpad_bytes_);
    const std::byte* filter = filters + static_cast<std::size_t>(i) * f.part_bytes();
    (begun ? next : first).call({source, filter, begun ? nullptr : bias, acc, worker_scratch});
    begun = true;
  }
  if (!begun) fill_with_bias(w, bias, acc);
}

template <class C>
void ImageContraction<C>::compute(const Arguments& arguments, const Strip& strip, const float* bias, float* acc,
                                  const std::byte* run_scratch, std::byte* worker_scratch) const {
  for_pieces(strip, taps_.rows, [&](const Piece& piece) {
    compute_piece(arguments, piece, bias, acc, run_scratch, worker_scratch);
    acc += piece.rows.height * width_ * c_.k;
  });
}

template <class C>
std::string ImageContraction<C>::describe() const {
  if (primitives_.empty()) return fmt::format("the image's padding alone{}", with_bias_ ? ", bias added" : "");
  std::string s = fmt::format("oneDNN {}, {}", to_string(compute_), primitives_.begin()->second.first.implementation);
  for (const auto& [geometry, p] : primitives_)
    if (p.first.implementation != primitives_.begin()->second.first.implementation)
      s += " and " + p.first.implementation;
  if (taps_.count > 1) s += fmt::format(", a volume's {} taps plane by plane", taps_.count);
  if (parts_ > 1) s += fmt::format(", input channels in {} parts", parts_);
  s +=
      fmt::format("{}; filter {}{}", with_bias_ ? ", bias added" : "", constant_ ? "packed once" : "packed at each run",
                  c_.layout == Layout::nchw ? "; channels-first image packed by strip" : "");
  if (const auto note = conversion_note(c_.dtype_x, c_.dtype_w, compute_); !note.empty()) s += "; " + note;
  if (c_.dtype_x == DType::bf16 && c_.dtype_w == DType::bf16 && compute_ == DType::f32)
    s += " (oneDNN has no exact bf16 convolution for this processor or number of channels)";
  return s;
}

}  // namespace

std::unique_ptr<AccumulatorSource> image_source(const Conv2d& c, bool with_bias, const Tiling& tiling,
                                                const CompileOptions& options, const VectorUnit& unit, DType compute) {
  return std::make_unique<ImageContraction<Conv2d>>(c, with_bias, tiling, options, unit, compute);
}

std::unique_ptr<AccumulatorSource> image_source(const Conv3d& c, bool with_bias, const Tiling& tiling,
                                                const CompileOptions& options, const VectorUnit& unit, DType compute) {
  return std::make_unique<ImageContraction<Conv3d>>(c, with_bias, tiling, options, unit, compute);
}

std::unique_ptr<AccumulatorSource> image_source(const ConvTranspose2d& c, bool with_bias, const Tiling& tiling,
                                                const CompileOptions& options, const VectorUnit& unit, DType compute) {
  return std::make_unique<ImageContraction<ConvTranspose2d>>(c, with_bias, tiling, options, unit, compute);
}

}  // namespace unisono::cpu
