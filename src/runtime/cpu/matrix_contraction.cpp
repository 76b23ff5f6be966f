/// Matrix products by oneDNN, strip by strip.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <new>
#include <vector>

#include "runtime/cpu/chains.hpp"
#include "runtime/cpu/constant_buffer.hpp"
#include "runtime/cpu/contraction_sources.hpp"
#include "runtime/cpu/dnnl_support.hpp"
#include "runtime/cpu/views.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

using dnnl::memory;

// From so many rows of a strip on, a part of the left operand's columns is read where it stands: oneDNN's kernel for
// that packs the right operand at each call, which costs more than packing the left one if rows are few.
constexpr std::int64_t least_rows_in_place = 64;

struct Primitive {
  Callable call;  // a, b, bias, destination, scratchpad
  memory::desc b;
  std::size_t scratchpad = 0;  // bytes
  std::string implementation;
};

class MatrixContraction final : public AccumulatorSource {
 public:
  MatrixContraction(const Gemm& g, bool with_bias, const Tiling& tiling, const CompileOptions& options,
                    const VectorUnit& unit, DType compute);

  std::size_t run_scratch() const override {
    return constant_ ? 0 : static_cast<std::size_t>(g_.batch) * matrix_bytes_ + dense_bytes();
  }
  std::size_t worker_scratch() const override { return scratchpad_bytes_ + packed_input_bytes_; }
  void check(const Arguments& arguments) const override;
  void prepare(const Arguments& arguments, std::byte* run_scratch) const override {
    if (!constant_)
      pack_all(arguments.right, run_scratch + static_cast<std::size_t>(g_.batch) * matrix_bytes_, run_scratch);
  }
  void compute(const Arguments& arguments, const Strip& strip, const float* bias, float* acc,
               const std::byte* run_scratch, std::byte* worker_scratch) const override;
  std::string describe() const override;

 private:
  void build(DType compute);
  // Terms [from, from + count) of the sums, by primitives for each height of a strip
  struct Chain {
    std::int64_t from = 0, count = 0;
    std::int64_t pitch = 0;  // elements from row to row of the left operand
    std::map<std::int64_t, Primitive> primitives;
    PackedWeights weights;
    std::size_t offset = 0;  // in a packed matrix
  };
  void add_chain(std::int64_t from, std::int64_t count);
  Primitive make_primitive(std::int64_t rows, const Chain& chain, const memory::desc& weights) const;
  std::size_t dense_bytes() const { return chains_.front().weights.dense_bytes(); }
  void pack_all(const ConstTensorView& b, std::byte* dense, std::byte* packed) const;
  const void* source_rows(const ConstTensorView& a, const Strip& strip, const Chain& chain, std::byte* packed) const;

  Gemm g_;
  bool with_bias_;
  Tiling tiling_;
  DType compute_ = DType::f32;
  std::vector<Chain> chains_;
  std::size_t matrix_bytes_ = 0;  // size of a packed right operand
  std::shared_ptr<const AlignedBuffer> constant_;
  std::size_t scratchpad_bytes_ = 0, packed_input_bytes_ = 0;
  const VectorUnit& unit_;
};

MatrixContraction::MatrixContraction(const Gemm& g, bool with_bias, const Tiling& tiling, const CompileOptions& options,
                                     const VectorUnit& unit, DType compute)
    : g_(g), with_bias_(with_bias), tiling_(tiling), unit_(unit) {
  require_contraction_dtype(g.dtype_a, "the left operand of " + to_string(Contraction(g)));
  require_contraction_dtype(g.dtype_b, "the right operand of " + to_string(Contraction(g)));
  try {
    build(compute);
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    if (compute == DType::f32)
      throw Unsupported(fmt::format("{}. On the CPU:\n  oneDNN: {}", to_string(Contraction(g)), e.what()));
    chains_.clear();
    matrix_bytes_ = 0;
    build(DType::f32);  // no bf16 instructions: said by describe()
  }
  if (options.constant_filter) {
    const auto dtypes = accepted_dtypes(g.dtype_b);
    checked_strides(*options.constant_filter, shape_b(Contraction(g)), dtypes,
                    "the constant right operand (constant_filter)");
    const AlignedBuffer dense(dense_bytes());
    constant_ = constant_buffer(static_cast<std::size_t>(g.batch) * matrix_bytes_,
                                [&](std::byte* packed) { pack_all(*options.constant_filter, dense.data(), packed); });
  }
}

void MatrixContraction::build(DType compute) {
  compute_ = compute;
  // oneDNN's product of one row goes on from what it adds to, as one chain
  const bool divides = compute == DType::f32 && tiling_.strip_height() > 1;
  const std::int64_t length = divides ? chain_length(g_.k) : g_.k;
  for (std::int64_t from = 0; from < g_.k; from += length) add_chain(from, std::min(length, g_.k - from));
  packed_input_bytes_ = aligned_size(static_cast<std::size_t>(tiling_.strip_height() * g_.k) * size_of(compute));
}

void MatrixContraction::add_chain(std::int64_t from, std::int64_t count) {
  Chain c{.from = from, .count = count, .pitch = 0, .primitives = {}, .weights = {}, .offset = matrix_bytes_};
  const memory::dims dims{count, g_.n};
  const memory::desc any(dims, dnnl_type(compute_), memory::format_tag::any);
  const bool in_place = compute_ == DType::f32 && !g_.transpose_a && tiling_.strip_height() >= least_rows_in_place;
  c.pitch = in_place ? g_.k : count;
  const memory::dims strides = g_.transpose_b ? memory::dims{1, g_.k} : memory::dims{g_.n, 1};
  // the highest strips choose the format of the right operand
  c.primitives.emplace(tiling_.strip_height(), make_primitive(tiling_.strip_height(), c, any));
  const memory::desc chosen = c.primitives.begin()->second.b;
  for (std::int64_t i = 0; i < tiling_.strips_per_image(); ++i) {
    const std::int64_t rows = tiling_.strip(i).height;
    if (!c.primitives.contains(rows)) c.primitives.emplace(rows, make_primitive(rows, c, chosen));
  }
  for (const auto& [rows, p] : c.primitives)
    scratchpad_bytes_ = std::max(scratchpad_bytes_, aligned_size(p.scratchpad));
  std::vector<std::int64_t> shape = shape_b(Contraction(g_));
  shape.erase(shape.begin());
  c.weights = PackedWeights(shape, compute_, memory::desc(dims, dnnl_type(compute_), strides), chosen, unit_,
                            from * strides[0]);
  matrix_bytes_ += c.weights.packed_bytes();
  chains_.push_back(std::move(c));
}

Primitive MatrixContraction::make_primitive(std::int64_t rows, const Chain& chain, const memory::desc& weights) const {
  const SingleThreaded single;
  const Making making;
  const dnnl::primitive_attr attr = with_own_scratchpad(chain.from > 0);
  const memory::desc bias = with_bias_ && chain.from == 0
                                ? memory::desc({1, g_.n}, memory::data_type::f32, memory::format_tag::ab)
                                : memory::desc();
  const dnnl::matmul::primitive_desc d(
      dnnl_engine(), memory::desc({rows, chain.count}, dnnl_type(compute_), memory::dims{chain.pitch, 1}), weights,
      bias, memory::desc({rows, g_.n}, memory::data_type::f32, memory::format_tag::ab), attr);
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
  checked_strides(arguments.left, shape_a(Contraction(g_)), dtypes_a, "the left operand of " + what);
  if (!constant_) checked_strides(arguments.right, shape_b(Contraction(g_)), dtypes_b, "the right operand of " + what);
}

void MatrixContraction::pack_all(const ConstTensorView& b, std::byte* dense, std::byte* packed) const {
  ConstTensorView one = b;
  const auto strides = b.strides.empty() ? row_major_strides(b.shape) : b.strides;
  one.shape.erase(one.shape.begin());
  one.strides.assign(strides.begin() + 1, strides.end());
  for (std::int64_t i = 0; i < g_.batch; ++i) {
    one.data = element(b.data, i * strides[0], b.dtype);
    for (const Chain& c : chains_)
      c.weights.pack(one, dense, packed + static_cast<std::size_t>(i) * matrix_bytes_ + c.offset);
  }
}

// A chain's columns of the strip's rows in the compute type: in place if they stand in memory as the primitive reads
// them
const void* MatrixContraction::source_rows(const ConstTensorView& a, const Strip& strip, const Chain& chain,
                                           std::byte* packed) const {
  const std::vector<std::int64_t> own = a.strides.empty() ? row_major_strides(a.shape) : std::vector<std::int64_t>();
  const std::vector<std::int64_t>& strides = a.strides.empty() ? own : a.strides;
  const std::int64_t row = strides[g_.transpose_a ? 2 : 1], depth = strides[g_.transpose_a ? 1 : 2];
  const auto* base = element(a.data, strip.image * strides[0] + strip.first * row + chain.from * depth, a.dtype);
  const bool same_type = size_of(a.dtype) == size_of(compute_) && (a.dtype == DType::bf16) == (compute_ == DType::bf16);
  if (same_type && (chain.count == 1 || depth == 1) && (strip.height == 1 || row == chain.pitch)) return base;
  const auto k = static_cast<std::size_t>(chain.count), rows = static_cast<std::size_t>(strip.height);
  if (compute_ == DType::f32 && size_of(a.dtype) == sizeof(float) && (row == 1 || depth == 1)) {
    const auto* from = reinterpret_cast<const float*>(base);
    auto* to = reinterpret_cast<float*>(packed);
    if (depth == 1)
      unit_.copy_rows(from, row, to, chain.pitch, rows, k);
    else
      unit_.transpose(from, depth, to, chain.pitch, k, rows);
    return packed;
  }
  for (std::int64_t i = 0; i < strip.height; ++i)
    convert_run(unit_, element(base, i * row, a.dtype), a.dtype, depth, k,
                element(static_cast<void*>(packed), i * chain.pitch, compute_), compute_);
  return packed;
}

void MatrixContraction::compute(const Arguments& arguments, const Strip& strip, const float* bias, float* acc,
                                const std::byte* run_scratch, std::byte* worker_scratch) const {
  const std::byte* matrices = constant_ ? constant_->data() : run_scratch;
  const std::byte* matrix = matrices + static_cast<std::size_t>(strip.image) * matrix_bytes_;
  for (const Chain& c : chains_) {
    const void* source = source_rows(arguments.left, strip, c, worker_scratch + scratchpad_bytes_);
    c.primitives.at(strip.height).call({source, matrix + c.offset, c.from == 0 ? bias : nullptr, acc, worker_scratch});
  }
}

std::string MatrixContraction::describe() const {
  std::string s = fmt::format("oneDNN {}, {}{}; right operand {}", to_string(compute_),
                              chains_.front().primitives.begin()->second.implementation,
                              with_bias_ ? ", bias added" : "", constant_ ? "packed once" : "packed at each run");
  if (chains_.size() > 1) s += fmt::format("; sums in {} parts", chains_.size());
  if (g_.transpose_a) s += "; left operand transposed by strip";
  if (const auto note = conversion_note(g_.dtype_a, g_.dtype_b, compute_); !note.empty()) s += "; " + note;
  if (g_.dtype_a == DType::bf16 && g_.dtype_b == DType::bf16 && compute_ == DType::f32)
    s += " (oneDNN has no bf16 matrix product for this processor)";
  return s;
}

}  // namespace

std::unique_ptr<AccumulatorSource> matrix_source(const Gemm& g, bool with_bias, const Tiling& tiling,
                                                 const CompileOptions& options, const VectorUnit& unit, DType compute) {
  return std::make_unique<MatrixContraction>(g, with_bias, tiling, options, unit, compute);
}

namespace {

// Where rounding of so few channels, or terms, would take as long as it spares
constexpr std::int64_t least_rounded = 16;

// The type in which a contraction with these operands multiplies. terms: channels, or elements, of each sum
DType compute_type(DType x, DType w, std::int64_t terms, bool rounds) {
  if (x == DType::bf16 && w == DType::bf16) return DType::bf16;
  const bool is_rounded = rounds && x == DType::f32 && w == DType::f32 && terms >= least_rounded;
  return is_rounded && multiplies_bf16() ? DType::bf16 : DType::f32;
}
DType compute_type(const Gemm& g, bool rounds) { return compute_type(g.dtype_a, g.dtype_b, g.k, rounds); }
DType compute_type(const FilterGradient2d&, bool) { return DType::f32; }
// With AMX, oneDNN 3.x is wrong for some windows of channels that fill no 32: 2x2 pixels of 48 or 80, at stride 2
DType compute_type(const auto& convolution, bool rounds) {
  const std::int64_t channels = convolution.c / convolution.groups;
  if (convolution.r * convolution.s > 1 && channels > 1 && channels % 32 != 0) return DType::f32;
  return compute_type(convolution.dtype_x, convolution.dtype_w, convolution.groups == 1 ? convolution.c : 0, rounds);
}

std::unique_ptr<AccumulatorSource> chosen_source(const Contraction& contraction, bool with_bias, const Tiling& tiling,
                                                 const CompileOptions& options, const VectorUnit& unit, bool rounds) {
  const DType compute = std::visit([&](const auto& c) { return compute_type(c, rounds); }, contraction);
  if (is_row_product(contraction, options)) return row_source(contraction, with_bias, options, unit);
  const auto* g = std::get_if<Gemm>(&contraction);
  if (g && cut_by_columns(*g, options)) return column_source(*g, with_bias, options, unit);
  if (g) return matrix_source(*g, with_bias, tiling, options, unit, compute);
  if (const auto* c = std::get_if<Conv2d>(&contraction))
    return image_source(*c, with_bias, tiling, options, unit, compute);
  if (const auto* c = std::get_if<Conv3d>(&contraction))
    return image_source(*c, with_bias, tiling, options, unit, compute);
  return image_source(std::get<ConvTranspose2d>(contraction), with_bias, tiling, options, unit, compute);
}

}  // namespace

std::unique_ptr<AccumulatorSource> contraction_source(const Contraction& contraction, bool with_bias,
                                                      const Tiling& tiling, const CompileOptions& options,
                                                      const VectorUnit& unit, bool rounds) {
  return with_own_errors([&] {
    const Making making;
    return chosen_source(contraction, with_bias, tiling, options, unit, rounds);
  });
}

}  // namespace unisono::cpu
