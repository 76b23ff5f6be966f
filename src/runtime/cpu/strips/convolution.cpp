#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "coda/error.hpp"
#include "runtime/cpu/elements.hpp"
#include "runtime/cpu/scratch.hpp"
#include "runtime/cpu/strips/accumulator.hpp"
#include "runtime/cpu/strips/contractions.hpp"
#include "runtime/cpu/strips/onednn.hpp"
#include "runtime/cpu/strips/operand_copy.hpp"
#include "runtime/cpu/views.hpp"
#include "runtime/cpu/worker_pool.hpp"

namespace coda::cpu {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// What distinguishes the primitives of strips: all else is the same for the whole convolution
struct StripShape {
  std::int64_t in_height = 0, out_height = 0, pad_top = 0, pad_bottom = 0;
  auto operator<=>(const StripShape&) const = default;
};

struct StripPrimitive {
  dnnl::convolution_forward primitive;
  memory::desc src, weights, dst, scratchpad;
  std::string implementation;
};

class ConvolutionSource final : public AccumulatorSource {
 public:
  ConvolutionSource(const Conv2d& c, const Tiling& tiling, const CompileOptions& options)
      : c_(c),
        tiling_(tiling),
        extents_(tiling.extents()),
        compute_dtype_(product_dtype(c, c.dtype_x, c.dtype_w)),
        input_(c.dtype_x, compute_dtype_, {c.n, c.h, c.w, c.c}, c.layout) {
    make_primitives();
    if (options.constant_b) {
      check_filter(*options.constant_b);
      constant_ = AlignedBuffer(weights_bytes());
      AlignedBuffer plain(plain_bytes());
      pack(*options.constant_b, constant_.data(), plain.data());
    }
  }

  std::size_t run_scratch() const override {
    const std::size_t filter = constant_.size() ? 0 : aligned_size(weights_bytes()) + aligned_size(plain_bytes());
    return filter + input_.scratch_bytes();
  }
  std::size_t worker_scratch() const override {
    std::size_t most = 0;
    for (const auto& [shape, p] : primitives_) most = std::max(most, p.scratchpad.get_size());
    return aligned_size(most);
  }

  void check(const Arguments& arguments) const override {
    input_.check(arguments.a, "input a");
    if (!constant_.size()) check_filter(arguments.b);
  }

  void prepare(const Arguments& arguments, std::byte* scratch) const override {
    if (!constant_.size()) pack(arguments.b, scratch, scratch + aligned_size(weights_bytes()));
    input_.copy_if_needed(arguments.a, input_scratch(scratch));
  }

  void compute(const Arguments& arguments, const Strip& strip, float* acc, const std::byte* scratch,
               std::byte* worker_scratch) const override {
    const auto rows = input_rows(strip);
    if (rows.last < rows.first) {  // the strip sees padding only
      std::memset(acc, 0, static_cast<std::size_t>(strip.height * extents_.width * extents_.cols) * sizeof(float));
      return;
    }
    const StripPrimitive& p = primitives_.at(shape_of(strip));
    const std::byte* source = input_.dense(arguments.a, input_scratch(scratch));
    source = element(source, (strip.image * c_.h + rows.first) * c_.w * c_.c, compute_dtype_);
    const std::byte* weights = constant_.size() ? constant_.data() : scratch;
    const SingleThreaded single;
    thread_local dnnl::stream stream(cpu_engine());
    p.primitive.execute(stream, {{DNNL_ARG_SRC, memory(p.src, cpu_engine(), const_cast<std::byte*>(source))},
                                 {DNNL_ARG_WEIGHTS, memory(p.weights, cpu_engine(), const_cast<std::byte*>(weights))},
                                 {DNNL_ARG_DST, memory(p.dst, cpu_engine(), acc)},
                                 {DNNL_ARG_SCRATCHPAD, memory(p.scratchpad, cpu_engine(), worker_scratch)}});
  }

  std::string describe() const override {
    std::map<std::string, int> names;
    for (const auto& [shape, p] : primitives_) ++names[p.implementation];
    std::string text = "oneDNN";
    for (const auto& [name, count] : names) text += fmt::format(" {}", name);
    text += fmt::format(", {} kinds of strip", primitives_.size());
    return text + input_.describe();
  }

 private:
  struct Rows {
    std::int64_t first, last;
  };

  // Input rows that a strip reads, clipped to the image
  Rows input_rows(const Strip& s) const {
    const std::int64_t low = s.first * c_.stride[0] - c_.pad[0];
    const std::int64_t high = (s.first + s.height - 1) * c_.stride[0] + (c_.r - 1) * c_.dilation[0] - c_.pad[0];
    return {std::max<std::int64_t>(low, 0), std::min(high, c_.h - 1)};
  }

  StripShape shape_of(const Strip& s) const {
    const Rows rows = input_rows(s);
    const std::int64_t low = s.first * c_.stride[0] - c_.pad[0];
    const std::int64_t high = (s.first + s.height - 1) * c_.stride[0] + (c_.r - 1) * c_.dilation[0] - c_.pad[0];
    return {rows.last - rows.first + 1, s.height, rows.first - low, high - rows.last};
  }

  memory::dims weight_dims() const {
    if (c_.groups == 1) return {c_.k, c_.c, c_.r, c_.s};
    return {c_.groups, c_.k / c_.groups, c_.c / c_.groups, c_.r, c_.s};
  }

  void make_primitives() {
    // the strip in the middle decides the format of the filter
    for (std::int64_t step : {tiling_.strips_per_image() / 2, std::int64_t{0}}) add_primitive(tiling_.strip(step));
    for (std::int64_t i = 0; i < tiling_.strips_per_image(); ++i) add_primitive(tiling_.strip(i));
    if (primitives_.empty()) {  // nothing but padding: a filter must still be packed
      weights_ = memory::desc(weight_dims(), data_type(), c_.groups == 1 ? Tag::oihw : Tag::goihw);
    }
  }

  memory::data_type data_type() const {
    return compute_dtype_ == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  }

  void add_primitive(const Strip& strip) {
    const Rows rows = input_rows(strip);
    if (rows.last < rows.first) return;
    const StripShape shape = shape_of(strip);
    if (primitives_.contains(shape)) return;
    const SingleThreaded single;
    const memory::desc src({1, c_.c, shape.in_height, c_.w}, data_type(), Tag::nhwc);
    const memory::desc dst({1, c_.k, shape.out_height, extents_.width}, memory::data_type::f32, Tag::nhwc);
    const memory::desc weights = primitives_.empty() ? memory::desc(weight_dims(), data_type(), Tag::any) : weights_;
    const auto make = [&](const memory::desc& w) {
      return dnnl::convolution_forward::primitive_desc(
          cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, src, w, dst,
          {c_.stride[0], c_.stride[1]}, {c_.dilation[0] - 1, c_.dilation[1] - 1}, {shape.pad_top, c_.pad[1]},
          {shape.pad_bottom, right_pad()}, user_scratchpad());
    };
    const auto pd = make(weights);
    weights_ = pd.weights_desc();
    primitives_.emplace(shape, StripPrimitive{dnnl::convolution_forward(pd), pd.src_desc(), pd.weights_desc(),
                                              pd.dst_desc(), pd.scratchpad_desc(), pd.impl_info_str()});
  }

  // oneDNN wants the padding that makes the output exact
  std::int64_t right_pad() const {
    return (extents_.width - 1) * c_.stride[1] + (c_.s - 1) * c_.dilation[1] + 1 - c_.w - c_.pad[1];
  }

  std::size_t weights_bytes() const { return weights_.get_size(); }
  std::size_t plain_bytes() const {
    return static_cast<std::size_t>(element_count(shape_b(c_))) * size_of(compute_dtype_);
  }
  std::byte* input_scratch(std::byte* s) const {
    return constant_.size() ? s : s + aligned_size(weights_bytes()) + aligned_size(plain_bytes());
  }
  const std::byte* input_scratch(const std::byte* s) const { return input_scratch(const_cast<std::byte*>(s)); }

  void check_filter(const ConstTensorView& b) const {
    const DType allowed[] = {c_.dtype_w};
    checked_strides(b, shape_b(c_), allowed, "filter b");
  }

  // The caller's filter, (K,R,S,C/groups) or (K,C/groups,R,S), into the primitives' format by way of a dense copy
  void pack(const ConstTensorView& b, std::byte* to, std::byte* plain) const {
    const auto strides = b.strides.empty() ? row_major_strides(b.shape) : b.strides;
    copy_dense(b, strides, compute_dtype_, plain);
    const bool nhwc = c_.layout == Layout::nhwc;
    const memory::desc from(weight_dims(), data_type(),
                            c_.groups == 1 ? (nhwc ? Tag::ohwi : Tag::oihw) : (nhwc ? Tag::gohwi : Tag::goihw));
    memory source(from, cpu_engine(), plain), target(weights_, cpu_engine(), to);
    dnnl::stream stream(cpu_engine());
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
  }

  Conv2d c_;
  Tiling tiling_;
  Extents extents_;
  DType compute_dtype_ = DType::f32;
  OperandCopy input_;
  memory::desc weights_;
  std::map<StripShape, StripPrimitive> primitives_;
  AlignedBuffer constant_;
};

}  // namespace

std::unique_ptr<AccumulatorSource> convolution_source(const Conv2d& c, const Tiling& tiling,
                                                      const CompileOptions& options) {
  return std::make_unique<ConvolutionSource>(c, tiling, options);
}

}  // namespace coda::cpu
