/// One row times a constant matrix: the last layer of a classifier, a squeeze-and-excite on one pixel. Reading the
/// matrix takes longer than the arithmetic, so sums are in f64; oneDNN would add the products of a row as one chain of
/// floats.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/cpu/constant_buffer.hpp"
#include "runtime/cpu/contraction_sources.hpp"
#include "runtime/cpu/dnnl_support.hpp"
#include "runtime/cpu/views.hpp"

namespace unisono::cpu {

namespace {

constexpr auto tile = static_cast<std::int64_t>(row_product_columns);
constexpr std::int64_t least_columns = 16;           // fewer would waste most of a tile
constexpr std::int64_t floats_of_a_part = 16 << 10;  // about so much of the matrix: parts follow from extents alone

bool is_single(DType t) { return t == DType::f32 || t == DType::tf32; }

bool is_dense(const ConstTensorView& v) { return v.strides.empty() || v.strides == row_major_strides(v.shape); }

// What both kinds of contraction come down to: y (images, n) = x (images, k) · w
struct RowProduct {
  std::int64_t images = 0, k = 0, n = 0;
  bool by_columns = false;  // w is (n, k) in memory, else (k, n)
};

RowProduct row_product_of(const Contraction& contraction) {
  if (const auto* g = std::get_if<Gemm>(&contraction)) return {1, g->k, g->n, g->transpose_b};
  const auto& c = std::get<Conv2d>(contraction);
  return {c.n, c.c, c.k, true};
}

class RowContraction final : public AccumulatorSource {
 public:
  RowContraction(const Contraction& contraction, bool with_bias, const CompileOptions& options, const VectorUnit& unit);

  std::size_t worker_scratch() const override { return aligned_size(static_cast<std::size_t>(p_.k) * sizeof(float)); }
  void check(const Arguments& arguments) const override {
    checked_strides(arguments.a(contraction_), shape_a(contraction_), accepted_dtypes(DType::f32),
                    "the left operand of " + to_string(contraction_));
  }
  void prepare(const Arguments&, std::byte*) const override {}
  void compute(const Arguments& arguments, const Strip& strip, const float* bias, float* acc, const std::byte*,
               std::byte* worker_scratch) const override {
    multiply(row_of(arguments.a(contraction_), strip.image, worker_scratch), 0, tiles(), bias, acc);
  }
  std::int64_t column_parts() const override { return p_.images == 1 ? (tiles() + part_ - 1) / part_ : 1; }
  void compute_part(const Arguments& arguments, std::int64_t part, const float* bias, float* acc, const std::byte*,
                    std::byte* worker_scratch) const override {
    multiply(row_of(arguments.a(contraction_), 0, worker_scratch), part * part_, std::min(tiles(), (part + 1) * part_),
             bias, acc);
  }
  std::string describe() const override {
    return fmt::format(
        "one row, summed in f64{}; right operand packed once{}", with_bias_ ? ", bias added" : "",
        column_parts() > 1 ? fmt::format(", in {} parts of {} columns", column_parts(), part_ * tile) : "");
  }

 private:
  std::int64_t tiles() const { return (p_.n + tile - 1) / tile; }
  const float* row_of(const ConstTensorView& a, std::int64_t image, std::byte* packed) const;
  void multiply(const float* row, std::int64_t first, std::int64_t last, const float* bias, float* acc) const;
  void pack(const float* b, float* to) const;

  Contraction contraction_;
  RowProduct p_;
  bool with_bias_;
  std::int64_t part_;                            // tiles of a part
  std::shared_ptr<const AlignedBuffer> matrix_;  // (tiles, k, 64), zeros behind the last column
  const VectorUnit& unit_;
};

RowContraction::RowContraction(const Contraction& contraction, bool with_bias, const CompileOptions& options,
                               const VectorUnit& unit)
    : contraction_(contraction),
      p_(row_product_of(contraction)),
      with_bias_(with_bias),
      part_(std::max<std::int64_t>(1, floats_of_a_part / (p_.k * tile))),
      unit_(unit) {
  checked_strides(*options.constant_filter, shape_b(contraction), accepted_dtypes(DType::f32),
                  "the constant right operand (constant_filter)");
  const auto* b = static_cast<const float*>(options.constant_filter->data);
  matrix_ = constant_buffer(aligned_size(static_cast<std::size_t>(tiles() * p_.k * tile) * sizeof(float)),
                            [&](std::byte* packed) { pack(b, reinterpret_cast<float*>(packed)); });
}

void RowContraction::pack(const float* b, float* to) const {
  for (std::int64_t first = 0; first < p_.n; first += tile, to += p_.k * tile) {
    const auto columns = static_cast<std::size_t>(std::min(tile, p_.n - first)), k = static_cast<std::size_t>(p_.k);
    if (p_.by_columns)
      unit_.transpose(b + first * p_.k, p_.k, to, tile, columns, k);
    else
      unit_.copy_rows(b + first, p_.n, to, tile, k, columns);
  }
}

// The row of an image, dense: in place if it stands so in memory
const float* RowContraction::row_of(const ConstTensorView& a, std::int64_t image, std::byte* packed) const {
  const std::vector<std::int64_t> own = a.strides.empty() ? row_major_strides(a.shape) : std::vector<std::int64_t>();
  const std::vector<std::int64_t>& strides = a.strides.empty() ? own : a.strides;
  std::int64_t from = 0, step = 0;
  if (const auto* g = std::get_if<Gemm>(&contraction_)) {
    step = strides[g->transpose_a ? 1 : 2];
  } else {
    const PixelStrides s = pixel_strides(strides, std::get<Conv2d>(contraction_).layout);
    from = image * s.image;
    step = s.col;
  }
  const float* row = static_cast<const float*>(a.data) + from;
  if (step == 1 || p_.k == 1) return row;
  auto* dense = reinterpret_cast<float*>(packed);
  load_floats(unit_, row, DType::f32, step, static_cast<std::size_t>(p_.k), dense);
  return dense;
}

void RowContraction::multiply(const float* row, std::int64_t first, std::int64_t last, const float* bias,
                              float* acc) const {
  const auto* matrix = reinterpret_cast<const float*>(matrix_->data());
  std::array<double, row_product_columns> sums;
  for (std::int64_t t = first; t < last; ++t) {
    unit_.row_product(row, matrix + t * p_.k * tile, static_cast<std::size_t>(p_.k), sums.data());
    for (std::int64_t j = t * tile; j < std::min(p_.n, (t + 1) * tile); ++j) {
      const double sum = sums[static_cast<std::size_t>(j - t * tile)];
      acc[j] = static_cast<float>(bias ? sum + static_cast<double>(bias[j]) : sum);
    }
  }
}

}  // namespace

bool is_row_product(const Contraction& contraction, const CompileOptions& options) {
  if (!options.constant_filter || !is_dense(*options.constant_filter)) return false;
  if (const auto* g = std::get_if<Gemm>(&contraction))
    return g->batch == 1 && g->m == 1 && g->n >= least_columns && g->k >= 1 && is_single(g->dtype_a) &&
           is_single(g->dtype_b);
  const auto* c = std::get_if<Conv2d>(&contraction);
  return c && c->h == 1 && c->w == 1 && c->r == 1 && c->s == 1 && c->groups == 1 && c->k >= least_columns &&
         c->pad == Margins(0) && is_single(c->dtype_x) && is_single(c->dtype_w);
}

std::unique_ptr<AccumulatorSource> row_source(const Contraction& contraction, bool with_bias,
                                              const CompileOptions& options, const VectorUnit& unit) {
  return std::make_unique<RowContraction>(contraction, with_bias, options, unit);
}

}  // namespace unisono::cpu
