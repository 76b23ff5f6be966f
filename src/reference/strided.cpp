#include "reference/strided.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/batch_view.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

Strided Strided::permuted(std::span<const int> order) const {
  Strided r{data, dtype, {}, {}};
  for (const int i : order) {
    r.extent.push_back(extent[i]);
    r.stride.push_back(stride[i]);
  }
  return r;
}

Strided Strided::split(int dim, std::int64_t outer) const {
  Strided r = *this;
  const std::int64_t inner = extent[dim] / outer;
  r.extent[dim] = inner;
  r.extent.insert(r.extent.begin() + dim, outer);
  r.stride.insert(r.stride.begin() + dim, inner * stride[dim]);
  return r;
}

Strided checked(const ConstTensorView& given, const std::vector<std::int64_t>& shape, std::string_view what) {
  const ConstTensorView view = ir::in_batch(given, shape);
  if (view.shape != shape)
    throw UserError(fmt::format("{} was given shape ({}); expected ({})", what, fmt::join(view.shape, ", "),
                                fmt::join(shape, ", ")));
  if (!view.strides.empty() && view.strides.size() != shape.size())
    throw UserError(fmt::format("{} was given {} strides for {} dimensions; give one for each, or none if dense", what,
                                view.strides.size(), shape.size()));
  if (view.dtype == DType::f8e4m3 || view.dtype == DType::f8e5m2)
    throw UserError(fmt::format("{} was given dtype {}, which is reserved; cast it to f16 or f32 first", what,
                                to_string(view.dtype)));
  if (view.data == nullptr) throw UserError(fmt::format("{} was given a null pointer", what));
  return {view.data, view.dtype, shape, view.strides.empty() ? row_major_strides(shape) : view.strides};
}

namespace {

// One line of `count` elements from index `first`
void gather_line(const Strided& view, std::int64_t first, std::int64_t count, std::int64_t step, double* out) {
  if (view.dtype == DType::f32 || view.dtype == DType::tf32) {
    const float* p = static_cast<const float*>(view.data) + first;
    for (std::int64_t i = 0; i < count; ++i) out[i] = p[i * step];
  } else if (view.dtype == DType::f64) {
    const double* p = static_cast<const double*>(view.data) + first;
    for (std::int64_t i = 0; i < count; ++i) out[i] = p[i * step];
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = support::load(view.data, first + i * step, view.dtype);
  }
}

}  // namespace

void gather(const Strided& view, double* out) {
  const int rank = static_cast<int>(view.extent.size());
  if (rank == 0) return gather_line(view, 0, 1, 0, out);
  const std::int64_t line = view.extent.back();
  const std::int64_t lines = element_count(view.extent) / line;
  std::vector<std::int64_t> at(view.extent.size(), 0);
  std::int64_t first = 0;
  for (std::int64_t l = 0; l < lines; ++l) {
    gather_line(view, first, line, view.stride.back(), out + l * line);
    for (int d = rank - 2; d >= 0; --d) {  // the next line: count up like an odometer
      first += view.stride[d];
      if (++at[d] < view.extent[d]) break;
      first -= view.extent[d] * view.stride[d];
      at[d] = 0;
    }
  }
}

std::vector<double> gather(const Strided& view) {
  std::vector<double> out(static_cast<std::size_t>(element_count(view.extent)));
  gather(view, out.data());
  return out;
}

}  // namespace unisono::reference
