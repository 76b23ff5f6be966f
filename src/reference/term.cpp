#include "reference/term.hpp"

#include <algorithm>

namespace unisono::reference {

Term::Term(const Space& space, const Axes& a, DType t) : axes(a), dtype(t), rows(space.rows(a)), cols(space.cols(a)) {
  storage_ = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(2 * size()));
  v = values();
  e = bounds();
}

Term expand(const Term& x, const Axes& to, const Space& space) {
  Term out(space, to, x.dtype);
  const std::int64_t run = out.cols / x.cols;  // columns that one element of x stands for
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const std::int64_t row = x.rows == out.rows ? r : x.rows == 1 ? 0 : r / space.extents.rows_per_image();
    for (std::int64_t c = 0; c < x.cols; ++c) {
      std::fill_n(out.values() + r * out.cols + c * run, run, x.v[row * x.cols + c]);
      std::fill_n(out.bounds() + r * out.cols + c * run, run, x.e[row * x.cols + c]);
    }
  }
  return out;
}

// f64: the reference itself rounds too, hence twice the unit
Arithmetic::Arithmetic(DType dtype, const ErrorModel& model)
    : u(dtype == DType::f64 ? 0x1p-52 : 0x1p-24),
      f(model.function_ulps * u),
      tiny(dtype == DType::f64 ? 0x1p-1022 : 0x1p-126),
      largest(dtype == DType::f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max()),
      single(dtype != DType::f64),
      longest_chain(static_cast<double>(model.longest_chain)) {}

}  // namespace unisono::reference
