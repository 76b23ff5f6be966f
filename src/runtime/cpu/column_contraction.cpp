/// Matrix products with so few rows that reading the right operand takes longer than the arithmetic: cut by columns, so
/// that each thread reads a part of it. A constant one is packed once; others are read where they lie, as packing them
/// at each run would take longer than the product.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/cpu/chains.hpp"
#include "runtime/cpu/constant_buffer.hpp"
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
// From so many rows on, a matrix (n, k) that is no constant is the left factor: oneDNN multiplies it by the transposed
// rows in 0.5 to 0.95 of the time that the product takes otherwise; fewer rows do not fill a vector
constexpr std::int64_t least_turned_rows = 16;

// Whether a matrix is dense: extents of 1 may have any stride
bool lies_dense(const ConstTensorView& v) {
  const std::vector<std::int64_t> own = row_major_strides(v.shape);
  for (std::size_t i = 0; !v.strides.empty() && i < v.shape.size(); ++i)
    if (v.shape[i] != 1 && v.strides[i] != own[i]) return false;
  return true;
}

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

  std::size_t run_scratch() const override {
    return is_constant_ ? 0 : aligned_size(static_cast<std::size_t>(g_.k * g_.n) * sizeof(float));
  }
  std::size_t worker_scratch() const override { return scratchpad_ + packed_input_ + further_sums_; }
  void check(const Arguments& arguments) const override;
  void prepare(const Arguments& arguments, std::byte* run_scratch) const override;
  void compute(const Arguments&, const Strip&, const float*, float*, const std::byte*, std::byte*) const override {
    throw InternalError("a product that is cut by columns was asked for rows");
  }
  std::int64_t column_parts() const override { return static_cast<std::int64_t>(parts_.size()); }
  void compute_part(const Arguments& arguments, std::int64_t part, const float* bias, float* acc,
                    const std::byte* run_scratch, std::byte* worker_scratch) const override;
  std::string describe() const override {
    return fmt::format("oneDNN f32, {}{}; right operand {}, in {} parts of up to {} columns", implementation_,
                       with_bias_ ? ", bias added" : "", is_constant_ ? "packed once" : "read in place", parts_.size(),
                       width_);
  }

 private:
  // Terms [from, from + …) of the sums of a part's columns
  struct Terms {
    std::int64_t from = 0;
    Callable call;  // a, b, bias, destination, scratchpad; the first ones write to the accumulators
    std::shared_ptr<const AlignedBuffer> weights;  // of a constant
    std::int64_t offset = 0;                       // in a dense right operand
  };
  struct Part {
    std::int64_t first = 0, columns = 0;
    std::vector<Terms> terms;
  };
  const float* source_of(const ConstTensorView& a, std::byte* packed) const;
  Part make_part(std::int64_t first, std::int64_t columns, const float* b);
  dnnl::matmul::primitive_desc product(std::int64_t columns, std::int64_t from, std::int64_t count) const;
  // A part of a dense right operand
  memory::desc plain(std::int64_t columns, std::int64_t count) const {
    return {{count, columns}, memory::data_type::f32, memory::dims{row_step(), column_step_of_b()}};
  }
  void turn_back(const Part& p, const float* sums, const float* bias, float* acc) const;
  Terms make_terms(std::int64_t first, std::int64_t columns, std::int64_t from, std::int64_t count, const float* b);
  // Elements from row to row of the dense right operand, and from column to column
  std::int64_t row_step() const { return g_.transpose_b ? 1 : g_.n; }
  std::int64_t column_step_of_b() const { return g_.transpose_b ? g_.k : 1; }

  Gemm g_;
  bool with_bias_, is_constant_;
  bool is_turned_;          // a part of the columns is computed as (columns, m)
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
      is_constant_(options.constant_filter.has_value()),
      is_turned_(!is_constant_ && g.transpose_b && g.m >= least_turned_rows),
      chain_(chain_length(g.k)),
      packed_input_(aligned_size(static_cast<std::size_t>(g.m * g.k) * sizeof(float))),
      unit_(unit) {
  if (is_constant_)
    checked_strides(*options.constant_filter, shape_b(Contraction(g)), accepted_dtypes(g.dtype_b),
                    "the constant right operand (constant_filter)");
  const auto* b = is_constant_ ? static_cast<const float*>(options.constant_filter->data) : nullptr;
  const std::int64_t parts = part_count(g);
  for (std::int64_t p = 0; p < parts; ++p) {
    const std::int64_t first = first_column(g, p, parts), columns = first_column(g, p + 1, parts) - first;
    width_ = std::max(width_, columns);
    parts_.push_back(make_part(first, columns, b));
  }
  if (g.k > chain_ || is_turned_) further_sums_ = aligned_size(static_cast<std::size_t>(g.m * width_) * sizeof(float));
}

ColumnContraction::Part ColumnContraction::make_part(std::int64_t first, std::int64_t columns, const float* b) {
  Part part;
  part.first = first, part.columns = columns;
  for (std::int64_t from = 0; from < g_.k; from += chain_)
    part.terms.push_back(make_terms(first, columns, from, std::min(chain_, g_.k - from), b));
  return part;
}

dnnl::matmul::primitive_desc ColumnContraction::product(std::int64_t columns, std::int64_t from,
                                                        std::int64_t count) const {
  const auto type = memory::data_type::f32;
  const memory::desc rows({g_.m, count}, type, memory::dims{g_.k, 1});
  if (is_turned_)
    return {dnnl_engine(), memory::desc({columns, count}, type, memory::dims{g_.k, 1}),
            memory::desc({count, g_.m}, type, memory::dims{1, g_.k}),
            memory::desc({columns, g_.m}, type, memory::dims{g_.m, 1}), with_own_scratchpad(from > 0)};
  const memory::desc bias =
      with_bias_ && from == 0 ? memory::desc({1, columns}, type, memory::format_tag::ab) : memory::desc();
  const memory::desc any({count, columns}, type, memory::format_tag::any);
  return {dnnl_engine(),
          rows,
          is_constant_ ? any : plain(columns, count),
          bias,
          memory::desc({g_.m, columns}, type, memory::dims{from == 0 ? g_.n : columns, 1}),
          with_own_scratchpad()};
}

ColumnContraction::Terms ColumnContraction::make_terms(std::int64_t first, std::int64_t columns, std::int64_t from,
                                                       std::int64_t count, const float* b) {
  const SingleThreaded single;
  const Making making;
  const dnnl::matmul::primitive_desc d = product(columns, from, count);
  implementation_ = d.impl_info_str();
  scratchpad_ = std::max(scratchpad_, aligned_size(d.scratchpad_desc().get_size()));
  Terms terms;
  terms.from = from;
  terms.call = Callable(dnnl::matmul(d), {{DNNL_ARG_SRC, d.src_desc()},
                                          {DNNL_ARG_WEIGHTS, d.weights_desc()},
                                          {DNNL_ARG_BIAS, d.bias_desc()},
                                          {DNNL_ARG_DST, d.dst_desc()},
                                          {DNNL_ARG_SCRATCHPAD, d.scratchpad_desc()}});
  terms.offset = first * column_step_of_b() + from * row_step();
  if (!is_constant_) return terms;
  const memory::desc given = plain(columns, count);
  const dnnl::reorder pack(dnnl::reorder::primitive_desc(dnnl_engine(), given, dnnl_engine(), d.weights_desc()));
  terms.weights = constant_buffer(aligned_size(d.weights_desc().get_size()), [&](std::byte* packed) {
    execute(pack, {{DNNL_ARG_FROM, given, b + terms.offset}, {DNNL_ARG_TO, d.weights_desc(), packed}});
  });
  return terms;
}

void ColumnContraction::check(const Arguments& arguments) const {
  const auto what = to_string(Contraction(g_));
  checked_strides(arguments.left, shape_a(Contraction(g_)), accepted_dtypes(g_.dtype_a), "the left operand of " + what);
  if (!is_constant_)
    checked_strides(arguments.right, shape_b(Contraction(g_)), accepted_dtypes(g_.dtype_b),
                    "the right operand of " + what);
}

// A right operand that is not dense is copied
void ColumnContraction::prepare(const Arguments& arguments, std::byte* run_scratch) const {
  const ConstTensorView& b = arguments.right;
  if (is_constant_ || lies_dense(b)) return;
  const auto rows = b.shape[1], columns = b.shape[2];
  const auto* from = static_cast<const float*>(b.data);
  auto* to = reinterpret_cast<float*>(run_scratch);
  for (std::int64_t i = 0; i < rows; ++i)
    load_floats(unit_, from + i * b.strides[1], DType::f32, b.strides[2], static_cast<std::size_t>(columns),
                to + i * columns);
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
                                     const std::byte* run_scratch, std::byte* worker_scratch) const {
  const bool is_copied = !is_constant_ && !lies_dense(arguments.right);
  const auto* b = static_cast<const float*>(is_copied ? static_cast<const void*>(run_scratch) : arguments.right.data);
  const float* source = source_of(arguments.left, worker_scratch + scratchpad_);
  const Part& p = parts_[static_cast<std::size_t>(part)];
  auto* further = reinterpret_cast<float*>(worker_scratch + scratchpad_ + packed_input_);
  if (is_turned_) {
    for (const Terms& t : p.terms) t.call({b + t.offset, source + t.from, nullptr, further, worker_scratch});
    return turn_back(p, further, bias, acc);
  }
  for (const Terms& t : p.terms) {
    const bool is_first = t.from == 0;
    const void* weights = is_constant_ ? static_cast<const void*>(t.weights->data()) : b + t.offset;
    t.call({source + t.from, weights, bias && is_first ? bias + p.first : nullptr, is_first ? acc + p.first : further,
            worker_scratch});
    // not by oneDNN: its product of one row goes on from what it adds to, as one chain
    for (std::int64_t i = 0; !is_first && i < g_.m; ++i)
      for (std::int64_t j = 0; j < p.columns; ++j) acc[i * g_.n + p.first + j] += further[i * p.columns + j];
  }
}

// sums: (columns, m)
void ColumnContraction::turn_back(const Part& p, const float* sums, const float* bias, float* acc) const {
  for (std::int64_t i = 0; i < g_.m; ++i) {
    float* row = acc + i * g_.n + p.first;
    for (std::int64_t j = 0; j < p.columns; ++j) row[j] = sums[j * g_.m + i] + (bias ? bias[p.first + j] : 0.0f);
  }
}

}  // namespace

bool cut_by_columns(const Gemm& g, const CompileOptions& options) {
  const auto f32 = [](DType t) { return t == DType::f32 || t == DType::tf32; };
  return g.batch == 1 && g.m <= most_rows && !g.transpose_a && f32(g.dtype_a) && f32(g.dtype_b) &&
         (!options.constant_filter || lies_dense(*options.constant_filter)) && g.n >= 2 * column_step && g.k >= 1 &&
         g.k * g.n >= 2 * part_floats;
}

std::unique_ptr<AccumulatorSource> column_source(const Gemm& g, bool with_bias, const CompileOptions& options,
                                                 const VectorUnit& unit) {
  return std::make_unique<ColumnContraction>(g, with_bias, options, unit);
}

}  // namespace unisono::cpu
