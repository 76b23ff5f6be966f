/// Matrix products by oneDNN, strip by strip.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <new>

#include "runtime/cpu/contraction_sources.hpp"
#include "runtime/cpu/dnnl_support.hpp"
#include "runtime/cpu/views.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

using dnnl::memory;

struct Primitive {
  Callable call;  // a, b, bias, destination, scratchpad
  memory::desc b;
  std::size_t scratchpad = 0;  // bytes
  std::string implementation;
};

class MatrixContraction final : public AccumulatorSource {
 public:
  MatrixContraction(const Gemm& g, bool with_bias, const Tiling& tiling, const CompileOptions& options,
                    const VectorUnit& unit);

  std::size_t run_scratch() const override {
    return constant_.data() ? 0 : static_cast<std::size_t>(g_.batch) * weights_.packed_bytes() + weights_.dense_bytes();
  }
  std::size_t worker_scratch() const override { return scratchpad_bytes_ + packed_input_bytes_; }
  void check(const Arguments& arguments) const override;
  void prepare(const Arguments& arguments, std::byte* run_scratch) const override {
    if (!constant_.data())
      pack_all(arguments.b, run_scratch + static_cast<std::size_t>(g_.batch) * weights_.packed_bytes(), run_scratch);
  }
  void compute(const Arguments& arguments, const Strip& strip, const float* bias, float* acc,
               const std::byte* run_scratch, std::byte* worker_scratch) const override;
  std::string describe() const override;

 private:
  void build(DType compute);
  Primitive make_primitive(std::int64_t rows, const memory::desc& weights) const;
  void pack_all(const ConstTensorView& b, std::byte* dense, std::byte* packed) const;
  const void* source_rows(const ConstTensorView& a, const Strip& strip, std::byte* packed) const;

  Gemm g_;
  bool with_bias_;
  Tiling tiling_;
  DType compute_ = DType::f32;
  std::map<std::int64_t, Primitive> primitives_;  // by rows
  PackedWeights weights_;                         // one matrix
  AlignedBuffer constant_;
  std::size_t scratchpad_bytes_ = 0, packed_input_bytes_ = 0;
  const VectorUnit& unit_;
};

MatrixContraction::MatrixContraction(const Gemm& g, bool with_bias, const Tiling& tiling, const CompileOptions& options,
                                     const VectorUnit& unit)
    : g_(g), with_bias_(with_bias), tiling_(tiling), unit_(unit) {
  require_contraction_dtype(g.dtype_a, "the left operand of " + to_string(Contraction(g)));
  require_contraction_dtype(g.dtype_b, "the right operand of " + to_string(Contraction(g)));
  try {
    build(g.dtype_a == DType::bf16 && g.dtype_b == DType::bf16 ? DType::bf16 : DType::f32);
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    if (g.dtype_a != DType::bf16 || g.dtype_b != DType::bf16)
      throw Unsupported(fmt::format("{}. On the CPU:\n  oneDNN: {}", to_string(Contraction(g)), e.what()));
    primitives_.clear();
    build(DType::f32);  // no bf16 instructions: said by describe()
  }
  if (options.constant_b) {
    const auto dtypes = accepted_dtypes(g.dtype_b);
    checked_strides(*options.constant_b, shape_b(Contraction(g)), dtypes, "the constant right operand (constant_b)");
    constant_ = AlignedBuffer(static_cast<std::size_t>(g.batch) * weights_.packed_bytes());
    const AlignedBuffer dense(weights_.dense_bytes());
    pack_all(*options.constant_b, dense.data(), constant_.data());
  }
}

void MatrixContraction::build(DType compute) {
  compute_ = compute;
  const auto type = dnnl_type(compute);
  const memory::dims dims{g_.k, g_.n};
  const memory::desc plain(dims, type, g_.transpose_b ? memory::dims{1, g_.k} : memory::dims{g_.n, 1});
  primitives_.emplace(tiling_.strip_height(),
                      make_primitive(tiling_.strip_height(), memory::desc(dims, type, memory::format_tag::any)));
  const memory::desc chosen = primitives_.begin()->second.b;
  for (std::int64_t i = 0; i < tiling_.strips_per_image(); ++i) {
    const std::int64_t rows = tiling_.strip(i).height;
    if (!primitives_.contains(rows)) primitives_.emplace(rows, make_primitive(rows, chosen));
  }
  for (const auto& [rows, p] : primitives_) scratchpad_bytes_ = std::max(scratchpad_bytes_, aligned_size(p.scratchpad));
  packed_input_bytes_ = aligned_size(static_cast<std::size_t>(tiling_.strip_height() * g_.k) * size_of(compute));
  std::vector<std::int64_t> shape = shape_b(Contraction(g_));
  shape.erase(shape.begin());
  weights_ = PackedWeights(shape, compute, plain, chosen, unit_);
}

Primitive MatrixContraction::make_primitive(std::int64_t rows, const memory::desc& weights) const {
  const SingleThreaded single;
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const memory::desc bias =
      with_bias_ ? memory::desc({1, g_.n}, memory::data_type::f32, memory::format_tag::ab) : memory::desc();
  const dnnl::matmul::primitive_desc d(
      dnnl_engine(), memory::desc({rows, g_.k}, dnnl_type(compute_), memory::format_tag::ab), weights, bias,
      memory::desc({rows, g_.n}, memory::data_type::f32, memory::format_tag::ab), attr);
  return {Callable(dnnl::matmul(d), {{DNNL_ARG_SRC, d.src_desc()},
                                     {DNNL_ARG_WEIGHTS, d.weights_desc()},
                                     {DNNL_ARG_BIAS, bias},
                                     {DNNL_ARG_DST, d.dst_desc()},
                                     {DNNL_ARG_SCRATCHPAD, d.scratchpad_desc()}}),
          d.weights_desc(), d.scratchpad_desc().get_size(), d.impl_info_str()};
}

void MatrixContraction::check(const Arguments& arguments) const {
  const auto dtypes_a = accepted_dtypes(g_.dtype_a), dtypes_b = accepted_dtypes(g_.dtype_b);
  const auto what = to_string(Contraction(g_));
  checked_strides(arguments.a, shape_a(Contraction(g_)), dtypes_a, "the left operand (a) of " + what);
  if (!constant_.data())
    checked_strides(arguments.b, shape_b(Contraction(g_)), dtypes_b, "the right operand (b) of " + what);
}

void MatrixContraction::pack_all(const ConstTensorView& b, std::byte* dense, std::byte* packed) const {
  ConstTensorView one = b;
  const auto strides = b.strides.empty() ? row_major_strides(b.shape) : b.strides;
  one.shape.erase(one.shape.begin());
  one.strides.assign(strides.begin() + 1, strides.end());
  for (std::int64_t i = 0; i < g_.batch; ++i) {
    one.data = element(b.data, i * strides[0], b.dtype);
    weights_.pack(one, dense, packed + static_cast<std::size_t>(i) * weights_.packed_bytes());
  }
}

// The strip's rows as dense (rows, k) in the compute type: in place if they stand so in memory
const void* MatrixContraction::source_rows(const ConstTensorView& a, const Strip& strip, std::byte* packed) const {
  const auto strides = a.strides.empty() ? row_major_strides(a.shape) : a.strides;
  const std::int64_t row = strides[g_.transpose_a ? 2 : 1], depth = strides[g_.transpose_a ? 1 : 2];
  const auto* base = element(a.data, strip.image * strides[0] + strip.first * row, a.dtype);
  const bool same_type = size_of(a.dtype) == size_of(compute_) && (a.dtype == DType::bf16) == (compute_ == DType::bf16);
  if (same_type && (g_.k == 1 || depth == 1) && (strip.height == 1 || row == g_.k)) return base;
  const auto k = static_cast<std::size_t>(g_.k), rows = static_cast<std::size_t>(strip.height);
  if (row == 1 && compute_ == DType::f32 && size_of(a.dtype) == sizeof(float)) {
    unit_.transpose(reinterpret_cast<const float*>(base), depth, reinterpret_cast<float*>(packed), g_.k, k, rows);
    return packed;
  }
  for (std::int64_t i = 0; i < strip.height; ++i)
    convert_run(unit_, element(base, i * row, a.dtype), a.dtype, depth, k,
                element(static_cast<void*>(packed), i * g_.k, compute_), compute_);
  return packed;
}

void MatrixContraction::compute(const Arguments& arguments, const Strip& strip, const float* bias, float* acc,
                                const std::byte* run_scratch, std::byte* worker_scratch) const {
  const Primitive& p = primitives_.at(strip.height);
  const void* source = source_rows(arguments.a, strip, worker_scratch + scratchpad_bytes_);
  const std::byte* weights = constant_.data() ? constant_.data() : run_scratch;
  p.call(
      {source, weights + static_cast<std::size_t>(strip.image) * weights_.packed_bytes(), bias, acc, worker_scratch});
}

std::string MatrixContraction::describe() const {
  std::string s =
      fmt::format("oneDNN {}, {}{}; right operand {}", to_string(compute_), primitives_.begin()->second.implementation,
                  with_bias_ ? ", bias added" : "", constant_.data() ? "packed once" : "packed at each run");
  if (g_.transpose_a) s += "; left operand transposed by strip";
  if (const auto note = conversion_note(g_.dtype_a, g_.dtype_b, compute_); !note.empty()) s += "; " + note;
  if (g_.dtype_a == DType::bf16 && g_.dtype_b == DType::bf16 && compute_ == DType::f32)
    s += " (oneDNN has no bf16 matrix product for this processor)";
  return s;
}

}  // namespace

std::unique_ptr<AccumulatorSource> matrix_source(const Gemm& g, bool with_bias, const Tiling& tiling,
                                                 const CompileOptions& options, const VectorUnit& unit) {
  return std::make_unique<MatrixContraction>(g, with_bias, tiling, options, unit);
}

std::unique_ptr<AccumulatorSource> contraction_source(const Contraction& contraction, bool with_bias,
                                                      const Tiling& tiling, const CompileOptions& options,
                                                      const VectorUnit& unit) {
  const auto* g = std::get_if<Gemm>(&contraction);
  if (g && cut_by_columns(*g, options)) return column_source(*g, with_bias, options, unit);
  if (g) return matrix_source(*g, with_bias, tiling, options, unit);
  if (const auto* c = std::get_if<Conv2d>(&contraction)) return image_source(*c, with_bias, tiling, options, unit);
  return image_source(std::get<ConvTranspose2d>(contraction), with_bias, tiling, options, unit);
}

}  // namespace unisono::cpu
