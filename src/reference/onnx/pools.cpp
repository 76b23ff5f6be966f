/// Pools as ONNX defines them.

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/onnx/definitions.hpp"
#include "reference/onnx/windows.hpp"

namespace unisono::float64 {
namespace {

// With ceil_mode the last window may hang over, if it starts within the image or ahead of it
Extents64 pooled_extents(const Windows& w, const Extents64& extents, bool ceil_mode) {
  Extents64 out;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const std::int64_t room = extents[d] + w.before[d] + w.after[d] - (w.kernel[d] - 1) * w.dilation[d] - 1;
    std::int64_t count = (ceil_mode ? room + w.stride[d] - 1 : room) / w.stride[d] + 1;
    if (ceil_mode && (count - 1) * w.stride[d] >= extents[d] + w.before[d]) --count;
    out.push_back(count);
  }
  return out;
}

struct Window {
  std::vector<Extents64> at;  // elements of the image, with image and channel
  std::int64_t padded = 0;    // taps within image and padding
};

Window window_at(const Windows& w, const Extents64& x, const Extents64& index) {
  Window window;
  for_indices(w.kernel, [&](const Extents64& tap) {
    Extents64 at{index[0], index[1]};
    bool inside = true, in_padding = true;
    for (std::size_t d = 0; d < tap.size(); ++d) {
      at.push_back(index[d + 2] * w.stride[d] - w.before[d] + tap[d] * w.dilation[d]);
      inside = inside && at.back() >= 0 && at.back() < x[d + 2];
      in_padding = in_padding && at.back() < x[d + 2] + w.after[d];
    }
    window.padded += in_padding ? 1 : 0;
    if (inside) window.at.push_back(std::move(at));
  });
  return window;
}

struct Pool {
  Windows windows;
  Extents64 shape;
};

Pool pool_of(const Call& call) {
  const Tensor64& x = call.in(0);
  const Extents64 extents(x.shape.begin() + 2, x.shape.end());
  const Windows w = windows_of(call, extents, call.list("kernel_shape").value());
  Pool pool{w, {x.shape[0], x.shape[1]}};
  const Extents64 out = pooled_extents(w, extents, call.integer("ceil_mode", 0) != 0);
  pool.shape.insert(pool.shape.end(), out.begin(), out.end());
  return pool;
}

// The first largest element, and where it is: row-major over all of x, or with the first axis of the image innermost
void define_max_pool(Call& call) {
  const Tensor64& x = call.in(0);
  const Pool pool = pool_of(call);
  const bool columns = call.integer("storage_order", 0) != 0;
  Tensor64 y = empty_tensor(pool.shape), places = empty_tensor(pool.shape);
  y.dtype = x.dtype, places.dtype = DType::i64;
  std::size_t to = 0;
  for_indices(pool.shape, [&](const Extents64& index) {
    double best = is_float(x.dtype) ? -std::numeric_limits<double>::infinity() : -0x1p63;
    Extents64 where;
    for (const Extents64& at : window_at(pool.windows, x.shape, index).at) {
      const double value = x.value[place(x.shape, at)];
      if (!where.empty() && !(value > best) && !(std::isnan(value) && !std::isnan(best))) continue;
      if (std::isnan(best)) continue;
      best = value, where = at;
    }
    if (!where.empty() && columns) {
      std::int64_t linear = where[0] * x.shape[1] + where[1];
      for (std::size_t d = where.size(); d-- > 2;) linear = linear * x.shape[d] + where[d];
      places.value[to] = static_cast<double>(linear);
    } else if (!where.empty()) {
      places.value[to] = static_cast<double>(place(x.shape, where));
    }
    y.value[to++] = best;
  });
  call.result(std::move(y));
  call.result(std::move(places), 1);
}

void define_average_pool(Call& call) {
  const Tensor64& x = call.in(0);
  const Pool pool = pool_of(call);
  const bool count_padding = call.integer("count_include_pad", 0) != 0;
  Tensor64 y = empty_tensor(pool.shape);
  y.dtype = x.dtype;
  std::size_t to = 0;
  for_indices(pool.shape, [&](const Extents64& index) {
    const Window window = window_at(pool.windows, x.shape, index);
    double sum = 0, sizes = 0;
    for (const Extents64& at : window.at) {
      const double value = x.value[place(x.shape, at)];
      sum += value, sizes += std::abs(value);
    }
    const auto count = static_cast<double>(count_padding ? window.padded : std::ssize(window.at));
    const double u = roundoff(x.dtype) * (std::sqrt(static_cast<double>(window.at.size())) + 2);
    y.value[to] = sum / count;
    y.bound[to++] = bound_within(u * sizes / count, sum / count, sizes, x.dtype);
  });
  call.result(std::move(y));
}

double norm(const std::vector<double>& terms, double p, double& bound, DType t) {
  double sum = 0;
  for (const double x : terms) sum += std::pow(std::abs(x), p);
  const double y = std::pow(sum, 1 / p), count = static_cast<double>(terms.size());
  bound = roundoff(t) * (std::sqrt(count) + 8) * y;
  if (sum > 0 && sum < 0x1p-100 && t != DType::f64) bound += std::pow(count * f32_underflow, 1 / p);
  bound = bound_within(bound, y, sum, t);
  return y;
}

void define_lp_pool(Call& call) {
  const Tensor64& x = call.in(0);
  const Pool pool = pool_of(call);
  const double p = call.attribute("p") == nullptr ? 2 : static_cast<double>(call.integer("p", 2));
  Tensor64 y = empty_tensor(pool.shape);
  y.dtype = x.dtype;
  std::size_t to = 0;
  for_indices(pool.shape, [&](const Extents64& index) {
    std::vector<double> terms;
    for (const Extents64& at : window_at(pool.windows, x.shape, index).at) terms.push_back(x.value[place(x.shape, at)]);
    y.value[to] = norm(terms, p, y.bound[to], x.dtype);
    ++to;
  });
  call.result(std::move(y));
}

// f(elements of a channel, bound) over all spatial axes
template <class F>
void global(Call& call, const F& f) {
  const Tensor64& x = call.in(0);
  Extents64 shape(x.shape.size(), 1);
  shape[0] = x.shape[0], shape[1] = x.shape[1];
  Tensor64 y = empty_tensor(shape);
  y.dtype = x.dtype;
  const std::size_t pixels = static_cast<std::size_t>(product(x.shape, 2, x.shape.size()));
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    const auto begin = x.value.begin() + static_cast<std::ptrdiff_t>(i * pixels);
    y.value[i] = f(std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(pixels)), y.bound[i]);
  }
  call.result(std::move(y));
}

void define_global_average_pool(Call& call) {
  const DType t = call.in(0).dtype;
  global(call, [&](const std::vector<double>& terms, double& bound) {
    double sum = 0, sizes = 0;
    for (const double x : terms) sum += x, sizes += std::abs(x);
    const auto count = static_cast<double>(terms.size());
    bound = bound_within(roundoff(t) * (std::sqrt(count) + 2) * sizes / count, sum / count, sizes, t);
    return sum / count;
  });
}

void define_global_max_pool(Call& call) {
  global(call, [](const std::vector<double>& terms, double&) {
    double best = -std::numeric_limits<double>::infinity();
    for (const double x : terms) best = std::isnan(x) || std::isnan(best) ? x + best : std::max(best, x);
    return best;
  });
}

void define_global_lp_pool(Call& call) {
  const auto p = static_cast<double>(call.integer("p", 2));
  const DType t = call.in(0).dtype;
  global(call, [&](const std::vector<double>& terms, double& bound) { return norm(terms, p, bound, t); });
}

constexpr OnnxDefinition pool_table[] = {{"AveragePool", define_average_pool},
                                         {"GlobalAveragePool", define_global_average_pool},
                                         {"GlobalLpPool", define_global_lp_pool},
                                         {"GlobalMaxPool", define_global_max_pool},
                                         {"LpPool", define_lp_pool},
                                         {"MaxPool", define_max_pool}};

}  // namespace

std::span<const OnnxDefinition> pool_definitions() { return pool_table; }

}  // namespace unisono::float64
