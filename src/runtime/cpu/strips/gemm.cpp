#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/cpu/elements.hpp"
#include "runtime/cpu/scratch.hpp"
#include "runtime/cpu/strips/contractions.hpp"
#include "runtime/cpu/strips/onednn.hpp"
#include "runtime/cpu/strips/operand_copy.hpp"
#include "runtime/cpu/views.hpp"

namespace coda::cpu {

namespace {

using dnnl::memory;

struct StripProduct {
  dnnl::matmul primitive;
  memory::desc a, b, c, scratchpad;
  std::string implementation;
};

// acc[b, rows of the strip, n] = A[b, rows, k]·B[b, k, n]; one primitive a height of strip
class GemmSource final : public AccumulatorSource {
 public:
  GemmSource(const Gemm& g, const Tiling& tiling, const CompileOptions& options)
      : g_(g),
        product_(product_dtype(g, g.dtype_a, g.dtype_b)),
        a_(g.dtype_a, product_, shape_a(g), Layout::nhwc),
        b_(g.dtype_b, product_, shape_b(g), Layout::nhwc) {
    const bool packed = options.constant_b.has_value();
    for (std::int64_t i = 0; i < tiling.strips_per_image(); ++i) add_product(tiling.strip(i).height, packed);
    if (!packed) return;
    b_.check(*options.constant_b, "right operand b");
    pack(*options.constant_b);
  }

  std::size_t run_scratch() const override { return a_.scratch_bytes() + (constant_.size() ? 0 : b_.scratch_bytes()); }
  std::size_t worker_scratch() const override {
    std::size_t most = 0;
    for (const auto& [height, p] : products_) most = std::max(most, p.scratchpad.get_size());
    return aligned_size(most);
  }

  void check(const Arguments& arguments) const override {
    a_.check(arguments.a, "left operand a");
    if (!constant_.size()) b_.check(arguments.b, "right operand b");
  }

  void prepare(const Arguments& arguments, std::byte* scratch) const override {
    a_.copy_if_needed(arguments.a, scratch);
    if (!constant_.size()) b_.copy_if_needed(arguments.b, scratch + a_.scratch_bytes());
  }

  void compute(const Arguments& arguments, const Strip& strip, float* acc, const std::byte* scratch,
               std::byte* worker_scratch) const override {
    const StripProduct& p = products_.at(strip.height);
    const std::int64_t start = strip.image * g_.m * g_.k + strip.first * (g_.transpose_a ? 1 : g_.k);
    const std::byte* a = element(static_cast<const void*>(a_.dense(arguments.a, scratch)), start, product_);
    const std::byte* b = constant_.size()
                             ? constant_.data() + static_cast<std::size_t>(strip.image) * packed_bytes_
                             : element(static_cast<const void*>(b_.dense(arguments.b, scratch + a_.scratch_bytes())),
                                       strip.image * g_.k * g_.n, product_);
    const SingleThreaded single;
    thread_local dnnl::stream stream(cpu_engine());
    p.primitive.execute(stream, {{DNNL_ARG_SRC, memory(p.a, cpu_engine(), const_cast<std::byte*>(a))},
                                 {DNNL_ARG_WEIGHTS, memory(p.b, cpu_engine(), const_cast<std::byte*>(b))},
                                 {DNNL_ARG_DST, memory(p.c, cpu_engine(), acc)},
                                 {DNNL_ARG_SCRATCHPAD, memory(p.scratchpad, cpu_engine(), worker_scratch)}});
  }

  std::string describe() const override {
    return fmt::format("oneDNN {}{}{}", products_.begin()->second.implementation, a_.describe(), b_.describe());
  }

 private:
  memory::data_type type() const { return product_ == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32; }
  memory::desc plain_b() const {
    return {{g_.k, g_.n}, type(), g_.transpose_b ? memory::dims{1, g_.k} : memory::dims{g_.n, 1}};
  }

  void add_product(std::int64_t height, bool packed) {
    if (products_.contains(height)) return;
    const SingleThreaded single;
    const memory::desc a({height, g_.k}, type(), g_.transpose_a ? memory::dims{1, g_.m} : memory::dims{g_.k, 1});
    const memory::desc b = !packed             ? plain_b()
                           : products_.empty() ? memory::desc({g_.k, g_.n}, type(), memory::format_tag::any)
                                               : products_.begin()->second.b;
    const memory::desc c({height, g_.n}, memory::data_type::f32, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc pd(cpu_engine(), a, b, c, user_scratchpad());
    products_.emplace(height, StripProduct{dnnl::matmul(pd), pd.src_desc(), pd.weights_desc(), pd.dst_desc(),
                                           pd.scratchpad_desc(), pd.impl_info_str()});
  }

  void pack(const ConstTensorView& view) {
    AlignedBuffer plain(b_.scratch_bytes());
    b_.copy_if_needed(view, plain.data());
    const std::byte* dense = b_.dense(view, plain.data());
    const memory::desc wanted = products_.begin()->second.b;
    packed_bytes_ = aligned_size(wanted.get_size());
    constant_ = AlignedBuffer(packed_bytes_ * static_cast<std::size_t>(g_.batch));
    dnnl::stream stream(cpu_engine());
    for (std::int64_t i = 0; i < g_.batch; ++i) {
      memory from(plain_b(), cpu_engine(),
                  const_cast<std::byte*>(element(static_cast<const void*>(dense), i * g_.k * g_.n, product_)));
      memory to(wanted, cpu_engine(), constant_.data() + static_cast<std::size_t>(i) * packed_bytes_);
      dnnl::reorder(from, to).execute(stream, from, to);
    }
    stream.wait();
  }

  Gemm g_;
  DType product_;
  OperandCopy a_, b_;
  std::map<std::int64_t, StripProduct> products_;
  AlignedBuffer constant_;
  std::size_t packed_bytes_ = 0;
};

}  // namespace

std::unique_ptr<AccumulatorSource> gemm_source(const Gemm& g, const Tiling& tiling, const CompileOptions& options) {
  return std::make_unique<GemmSource>(g, tiling, options);
}

}  // namespace coda::cpu
