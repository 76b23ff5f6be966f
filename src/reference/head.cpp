#include "reference/head.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ir/store_forms.hpp"
#include "reference/strided.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

Values exact(const ConstTensorView& tensor) {
  const auto count = static_cast<std::size_t>(element_count(tensor.shape));
  Values values{.axes = axes::mn, .value = std::vector<double>(count), .bound = std::vector<double>(count, 0.0)};
  const auto strides = tensor.strides.empty() ? row_major_strides(tensor.shape) : tensor.strides;
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t at = 0, left = static_cast<std::int64_t>(i);
    for (std::size_t axis = tensor.shape.size(); axis-- > 0; left /= tensor.shape[axis])
      at += left % tensor.shape[axis] * strides[axis];
    values.value[i] = support::load(tensor.data, at, tensor.dtype);
  }
  return values;
}

namespace {

// An infinity or NaN among exact factors is certain; sums beyond f32 may overflow, and products underflow
double bound_of(double sum, double absolute, double inherited, double accumulate, std::size_t terms) {
  constexpr double unclaimed = std::numeric_limits<double>::infinity();
  if (!std::isfinite(sum)) return inherited == 0 ? 0 : unclaimed;
  const double bound = inherited + accumulate * absolute + static_cast<double>(terms) * 0x1p-126;
  return absolute + bound <= std::numeric_limits<float>::max() ? bound : unclaimed;
}

}  // namespace

Values head_sums(const Values& store, const ConstTensorView& filter, std::int64_t count, double accumulate) {
  const Values w = exact(filter);
  const auto channels = static_cast<std::size_t>(count), n = w.value.size() / channels;
  const std::size_t rows = store.value.size() / n;
  Values sums{.axes = axes::mn, .value = std::vector<double>(rows * channels), .bound = {}};
  sums.bound.resize(sums.value.size());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t channel = 0; channel < channels; ++channel) {
      double sum = 0, absolute = 0, inherited = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double x = store.value[row * n + i], f = w.value[channel * n + i], off = store.bound[row * n + i];
        sum += x * f;
        if (f == 0) continue;
        absolute += (std::abs(x) + off) * std::abs(f);
        inherited += off * std::abs(f);
      }
      sums.value[row * channels + channel] = sum;
      sums.bound[row * channels + channel] = bound_of(sum, absolute, inherited, accumulate, n);
    }
  return sums;
}

Values head_result(const Head& head, const Contraction& main, const Values& source, DType dtype,
                   const Arguments& arguments, const ErrorModel& model) {
  const Contraction product = ir::head_contraction(main, head.channels, dtype);
  const std::string what = fmt::format("filter {} of the head {}", head.filter, head.graph.stores[0].name);
  const auto filter = arguments.operands.find(head.filter);
  if (filter == arguments.operands.end())
    throw UserError(fmt::format("{} is not bound; give it in Arguments::operands", what));
  (void)checked(filter->second, shape_b(product), what);
  // Rounding of sums in any order (Higham, eq. 3.5); factors of tf32 are cut off or rounded
  const double terms = static_cast<double>(depth(product)) * (model.accumulate + 0x1p-53);
  const double factors = dtype == DType::tf32 ? 2 * 0x1p-10 + 0x1p-20 : 0;
  const Values sums = head_sums(stored(source, dtype), filter->second, head.channels, terms / (1 - terms) + factors);
  return evaluate(head.graph, product, sums, arguments, model).begin()->second;
}

}  // namespace unisono::reference
