#include <fmt/format.h>

#include <cstring>

#include "runtime/cpu/elements.hpp"
#include "runtime/cpu/scratch.hpp"
#include "runtime/cpu/strips/contractions.hpp"
#include "runtime/cpu/strips/onednn.hpp"
#include "runtime/cpu/strips/operand_copy.hpp"
#include "runtime/cpu/views.hpp"
#include "runtime/cpu/worker_pool.hpp"

namespace coda::cpu {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// Whole images, one a task, before the strips: an output row of a transposed convolution has no simple window of input
// rows. Strips then copy their accumulators from there.
class TransposedSource final : public AccumulatorSource {
 public:
  TransposedSource(const ConvTranspose2d& c, const Tiling& tiling, const CompileOptions& options)
      : c_(c),
        e_(tiling.extents()),
        product_(product_dtype(c, c.dtype_x, c.dtype_w)),
        input_(c.dtype_x, product_, {c.n, c.h, c.w, c.c}, c.layout) {
    make_primitive();
    if (!options.constant_b) return;
    check_filter(*options.constant_b);
    constant_ = AlignedBuffer(weights_.get_size());
    AlignedBuffer plain(plain_bytes());
    pack(*options.constant_b, constant_.data(), plain.data());
  }

  std::size_t run_scratch() const override {
    return input_.scratch_bytes() + output_bytes() +
           aligned_size(scratchpad_.get_size()) * static_cast<std::size_t>(e_.images) +
           (constant_.size() ? 0 : aligned_size(weights_.get_size()) + aligned_size(plain_bytes()));
  }

  void check(const Arguments& arguments) const override {
    input_.check(arguments.a, "input a");
    if (!constant_.size()) check_filter(arguments.b);
  }

  void prepare(const Arguments& arguments, std::byte* scratch) const override {
    std::byte* output = scratch + input_.scratch_bytes();
    std::byte* pads = output + output_bytes();
    std::byte* filter = pads + aligned_size(scratchpad_.get_size()) * static_cast<std::size_t>(e_.images);
    input_.copy_if_needed(arguments.a, scratch);
    if (!constant_.size()) pack(arguments.b, filter, filter + aligned_size(weights_.get_size()));
    const std::byte* weights = constant_.size() ? constant_.data() : filter;
    const std::byte* source = input_.dense(arguments.a, scratch);
    WorkerPool::shared().for_each(available_cores(), e_.images, [&](std::int64_t image, int) {
      const SingleThreaded single;
      thread_local dnnl::stream stream(cpu_engine());
      const std::byte* x = element(static_cast<const void*>(source), image * c_.h * c_.w * c_.c, product_);
      std::byte* y = output + static_cast<std::size_t>(image * e_.rows_per_image() * e_.cols) * sizeof(float);
      std::byte* pad = pads + static_cast<std::size_t>(image) * aligned_size(scratchpad_.get_size());
      primitive_.execute(stream, {{DNNL_ARG_SRC, memory(src_, cpu_engine(), const_cast<std::byte*>(x))},
                                  {DNNL_ARG_WEIGHTS, memory(weights_, cpu_engine(), const_cast<std::byte*>(weights))},
                                  {DNNL_ARG_DST, memory(dst_, cpu_engine(), y)},
                                  {DNNL_ARG_SCRATCHPAD, memory(scratchpad_, cpu_engine(), pad)}});
    });
  }

  void compute(const Arguments&, const Strip& strip, float* acc, const std::byte* scratch, std::byte*) const override {
    const auto* output = reinterpret_cast<const float*>(scratch + input_.scratch_bytes());
    const std::int64_t row = strip.image * e_.rows_per_image() + strip.first * e_.width;
    std::memcpy(acc, output + row * e_.cols,
                static_cast<std::size_t>(strip.height * e_.width * e_.cols) * sizeof(float));
  }

  std::string describe() const override {
    return fmt::format("oneDNN {}, whole images{}", implementation_, input_.describe());
  }

 private:
  memory::data_type type() const { return product_ == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32; }
  std::size_t output_bytes() const {
    return aligned_size(static_cast<std::size_t>(e_.rows() * e_.cols) * sizeof(float));
  }
  std::size_t plain_bytes() const { return static_cast<std::size_t>(element_count(shape_b(c_))) * size_of(product_); }

  // oneDNN names the output channels first, as for the convolution that this is the transpose of seen the other way
  // round
  memory::dims weight_dims() const {
    if (c_.groups == 1) return {c_.k, c_.c, c_.r, c_.s};
    return {c_.groups, c_.k / c_.groups, c_.c / c_.groups, c_.r, c_.s};
  }

  void make_primitive() {
    const SingleThreaded single;
    src_ = memory::desc({1, c_.c, c_.h, c_.w}, type(), Tag::nhwc);
    dst_ = memory::desc({1, c_.k, e_.height, e_.width}, memory::data_type::f32, Tag::nhwc);
    const memory::dims bottom_right{c_.pad[2] - c_.output_pad[0], c_.pad[3] - c_.output_pad[1]};
    const dnnl::deconvolution_forward::primitive_desc pd(
        cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct, src_,
        memory::desc(weight_dims(), type(), Tag::any), dst_, {c_.stride[0], c_.stride[1]},
        {c_.dilation[0] - 1, c_.dilation[1] - 1}, {c_.pad[0], c_.pad[1]}, bottom_right, user_scratchpad());
    weights_ = pd.weights_desc();
    scratchpad_ = pd.scratchpad_desc();
    implementation_ = pd.impl_info_str();
    primitive_ = dnnl::deconvolution_forward(pd);
  }

  void check_filter(const ConstTensorView& b) const {
    const DType allowed[] = {c_.dtype_w};
    checked_strides(b, shape_b(c_), allowed, "filter b");
  }

  // The caller's filter, (C,R,S,K/groups) or (C,K/groups,R,S), into the primitive's format by way of a dense copy
  void pack(const ConstTensorView& b, std::byte* to, std::byte* plain) const {
    copy_dense(b, b.strides.empty() ? row_major_strides(b.shape) : b.strides, product_, plain);
    const std::int64_t kg = c_.k / c_.groups, cg = c_.c / c_.groups, r = c_.r, s = c_.s;
    const bool nhwc = c_.layout == Layout::nhwc;
    // strides of (k, c, r, s) within the caller's order
    memory::dims strides = nhwc ? memory::dims{1, r * s * kg, s * kg, kg} : memory::dims{r * s, kg * r * s, s, 1};
    if (c_.groups > 1) strides.insert(strides.begin(), cg * r * s * kg);
    memory from(memory::desc(weight_dims(), type(), strides), cpu_engine(), plain), target(weights_, cpu_engine(), to);
    dnnl::stream stream(cpu_engine());
    dnnl::reorder(from, target).execute(stream, from, target);
    stream.wait();
  }

  ConvTranspose2d c_;
  Extents e_;
  DType product_;
  OperandCopy input_;
  dnnl::deconvolution_forward primitive_;
  memory::desc src_, weights_, dst_, scratchpad_;
  std::string implementation_;
  AlignedBuffer constant_;
};

}  // namespace

std::unique_ptr<AccumulatorSource> transposed_convolution_source(const ConvTranspose2d& c, const Tiling& tiling,
                                                                 const CompileOptions& options) {
  return std::make_unique<TransposedSource>(c, tiling, options);
}

}  // namespace coda::cpu
