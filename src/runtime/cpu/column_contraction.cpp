/// Matrix products with so few rows that reading the right operand takes longer than the arithmetic: cut by columns, so
/// that each thread reads a part of it.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/cpu/chains.hpp"
#include "runtime/cpu/contraction_sources.hpp"
#include "runtime/cpu/dnnl_support.hpp"
#include "runtime/cpu/views.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

using dnnl::memory;

constexpr std::int64_t most_rows = 64;
constexpr std::int64_t part_floats =
    32 << 10;                              // about so much of the right operand a part: parts follow from extents alone
constexpr std::int64_t column_step = 64;   // what a kernel computes at once
constexpr std::int64_t widest_part = 384;  // 64 to 256 columns cost 10 % more at 50 rows
constexpr std::int64_t vector_floats = 16;

// How many parts: what is read for one chain of products should be worth a call, and parts that two threads share
// should take the same time
std::int64_t part_count(const Gemm& g) {
  const std::int64_t whole = part_floats / g.k / column_step * column_step;
  const std::int64_t chain = std::min(widest_part, g.n / 2 / column_step * column_step);
  const std::int64_t parts = g.n / std::max({column_step, whole, chain});
  return parts < 2 ? 2 : parts - parts % 2;
}

// The first column of a part; parts differ by at most one vector, and the last one by columns that fill none
std::int64_t first_column(const Gemm& g, std::int64_t part, std::int64_t parts) {
  const std::int64_t vectors = (g.n + vector_floats - 1) / vector_floats;
  return std::min(g.n, part * vectors / parts * vector_floats);
}

class ColumnContraction final : public AccumulatorSource {
 public:
  ColumnContraction(const Gemm& g, bool with_bias, const CompileOptions& options, const VectorUnit& unit);

  std::size_t worker_scratch() const override { return scratchpad_ + packed_input_ + further_sums_; }
  void check(const Arguments& arguments) const override {
    checked_strides(arguments.left, shape_a(Contraction(g_)), accepted_dtypes(g_.dtype_a),
                    "the left operand of " + to_string(Contraction(g_)));
  }
  void prepare(const Arguments&, std::byte*) const override {}
  void compute(const Arguments&, const Strip&, const float*, float*, const std::byte*, std::byte*) const override {
    throw InternalError("a product that is cut by columns was asked for rows");
  }
  std::int64_t column_parts() const override { return static_cast<std::int64_t>(parts_.size()); }
  void compute_part(const Arguments& arguments, std::int64_t part, const float* bias, float* acc,
                    std::byte* worker_scratch) const override;
  std::string describe() const override {
    return fmt::format("oneDNN f32, {}{}; right operand packed once, in {} parts of up to {} columns", implementation_,
                       with_bias_ ? ", bias added" : "", parts_.size(), width_);
  }

 private:
  // Terms [from, from + …) of the sums of a part's columns
  struct Terms {
    std::int64_t from = 0;
    Callable call;  // a, b, bias, destination, scratchpad; the first ones write to the accumulators
    AlignedBuffer weights;
  };
  struct Part {
    std::int64_t first = 0, columns = 0;
    std::vector<Terms> terms;
  };
  const float* source_of(const ConstTensorView& a, std::byte* packed) const;
  Part make_part(std::int64_t first, std::int64_t columns, const float* b);
  Terms make_terms(std::int64_t first, std::int64_t columns, std::int64_t from, std::int64_t count, const float* b);

  Gemm g_;
  bool with_bias_;
  std::int64_t width_ = 0;  // columns of the widest part
  std::int64_t chain_;      // terms that a kernel adds up one after the other
  std::vector<Part> parts_;
  std::string implementation_;
  std::size_t scratchpad_ = 0, packed_input_, further_sums_ = 0;
  const VectorUnit& unit_;
};

ColumnContraction::ColumnContraction(const Gemm& g, bool with_bias, const CompileOptions& options,
                                     const VectorUnit& unit)
    : g_(g),
      with_bias_(with_bias),
      chain_(chain_length(g.k)),
      packed_input_(aligned_size(static_cast<std::size_t>(g.m * g.k) * sizeof(float))),
      unit_(unit) {
  checked_strides(*options.constant_filter, shape_b(Contraction(g)), accepted_dtypes(g.dtype_b),
                  "the constant right operand (constant_filter)");
  const auto* b = static_cast<const float*>(options.constant_filter->data);
  const std::int64_t parts = part_count(g);
  for (std::int64_t p = 0; p < parts; ++p) {
    const std::int64_t first = first_column(g, p, parts), columns = first_column(g, p + 1, parts) - first;
    width_ = std::max(width_, columns);
    parts_.push_back(make_part(first, columns, b));
  }
  if (g.k > chain_) further_sums_ = aligned_size(static_cast<std::size_t>(g.m * width_) * sizeof(float));
}

ColumnContraction::Part ColumnContraction::make_part(std::int64_t first, std::int64_t columns, const float* b) {
  Part part;
  part.first = first, part.columns = columns;
  for (std::int64_t from = 0; from < g_.k; from += chain_)
    part.terms.push_back(make_terms(first, columns, from, std::min(chain_, g_.k - from), b));
  return part;
}

ColumnContraction::Terms ColumnContraction::make_terms(std::int64_t first, std::int64_t columns, std::int64_t from,
                                                       std::int64_t count, const float* b) {
  const SingleThreaded single;
  const Making making;
  const auto type = memory::data_type::f32;
  const dnnl::primitive_attr attr = with_own_scratchpad();
  const memory::desc bias =
      with_bias_ && from == 0 ? memory::desc({1, columns}, type, memory::format_tag::ab) : memory::desc();
  const dnnl::matmul::primitive_desc d(dnnl_engine(), memory::desc({g_.m, count}, type, memory::dims{g_.k, 1}),
                                       memory::desc({count, columns}, type, memory::format_tag::any), bias,
                                       memory::desc({g_.m, columns}, type, memory::dims{from == 0 ? g_.n : columns, 1}),
                                       attr);
  implementation_ = d.impl_info_str();
  scratchpad_ = std::max(scratchpad_, aligned_size(d.scratchpad_desc().get_size()));
  Terms terms;
  terms.from = from;
  terms.call = Callable(dnnl::matmul(d), {{DNNL_ARG_SRC, d.src_desc()},
                                          {DNNL_ARG_WEIGHTS, d.weights_desc()},
                                          {DNNL_ARG_BIAS, bias},
                                          {DNNL_ARG_DST, d.dst_desc()},
                                          {DNNL_ARG_SCRATCHPAD, d.scratchpad_desc()}});
  terms.weights = AlignedBuffer(aligned_size(d.weights_desc().get_size()));
  const std::int64_t row = g_.transpose_b ? 1 : g_.n, column = g_.transpose_b ? g_.k : 1;
  const memory::desc plain({count, columns}, type, memory::dims{row, column});
  const dnnl::reorder pack(dnnl::reorder::primitive_desc(dnnl_engine(), plain, dnnl_engine(), d.weights_desc()));
  execute(pack, {{DNNL_ARG_FROM, plain, b + first * column + from * row},
                 {DNNL_ARG_TO, d.weights_desc(), terms.weights.data()}});
  return terms;
}

// The left operand as a dense matrix: in place if it stands so in memory
const float* ColumnContraction::source_of(const ConstTensorView& a, std::byte* packed) const {
  const std::vector<std::int64_t> own = a.strides.empty() ? row_major_strides(a.shape) : std::vector<std::int64_t>();
  const std::vector<std::int64_t>& strides = a.strides.empty() ? own : a.strides;
  const auto* source = static_cast<const float*>(a.data);
  if ((g_.k == 1 || strides[2] == 1) && (g_.m == 1 || strides[1] == g_.k)) return source;
  auto* target = reinterpret_cast<float*>(packed);
  for (std::int64_t i = 0; i < g_.m; ++i)
    load_floats(unit_, source + i * strides[1], DType::f32, strides[2], static_cast<std::size_t>(g_.k),
                target + i * g_.k);
  return target;
}

void ColumnContraction::compute_part(const Arguments& arguments, std::int64_t part, const float* bias, float* acc,
                                     std::byte* worker_scratch) const {
  const float* source = source_of(arguments.left, worker_scratch + scratchpad_);
  const Part& p = parts_[static_cast<std::size_t>(part)];
  auto* further = reinterpret_cast<float*>(worker_scratch + scratchpad_ + packed_input_);
  for (const Terms& t : p.terms) {
    const bool is_first = t.from == 0;
    t.call({source + t.from, t.weights.data(), bias && is_first ? bias + p.first : nullptr,
            is_first ? acc + p.first : further, worker_scratch});
    // not by oneDNN: its product of one row goes on from what it adds to, as one chain
    for (std::int64_t i = 0; !is_first && i < g_.m; ++i)
      for (std::int64_t j = 0; j < p.columns; ++j) acc[i * g_.n + p.first + j] += further[i * p.columns + j];
  }
}

}  // namespace

bool cut_by_columns(const Gemm& g, const CompileOptions& options) {
  const auto f32 = [](DType t) { return t == DType::f32 || t == DType::tf32; };
  return g.batch == 1 && g.m <= most_rows && !g.transpose_a && f32(g.dtype_a) && f32(g.dtype_b) &&
         options.constant_filter &&
         (options.constant_filter->strides.empty() ||
          options.constant_filter->strides == row_major_strides(options.constant_filter->shape)) &&
         g.n >= 2 * column_step && g.k >= 1 && g.k * g.n >= 2 * part_floats;
}

std::unique_ptr<AccumulatorSource> column_source(const Gemm& g, bool with_bias, const CompileOptions& options,
                                                 const VectorUnit& unit) {
  return std::make_unique<ColumnContraction>(g, with_bias, options, unit);
}

}  // namespace unisono::cpu
