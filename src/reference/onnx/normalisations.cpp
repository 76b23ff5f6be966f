/// Normalisations and softmax as ONNX defines them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "reference/onnx/definitions.hpp"

namespace unisono::float64 {
namespace {

struct Statistics {
  double mean = 0, mean_error = 0, variance = 0, variance_error = 0;
};

// Mean and variance of some elements, and how far f32 may be off: √n roundings of a sum of n terms
Statistics statistics_of(const Tensor64& x, const std::vector<std::size_t>& group, bool centred) {
  const double u = roundoff(x.dtype), n = static_cast<double>(group.size());
  Statistics s;
  double sum = 0, sizes = 0, squares = 0, deviations = 0;
  for (const std::size_t i : group) sum += x.value[i], sizes += std::abs(x.value[i]);
  if (centred) s.mean = sum / n, s.mean_error = u * (std::sqrt(n) + 2) * sizes / n;
  for (const std::size_t i : group) {
    const double d = x.value[i] - s.mean;
    squares += d * d, deviations += std::abs(d);
  }
  s.variance = squares / n;
  const double error = s.mean_error + u * (centred ? sizes / n : 0);  // of each difference
  s.variance_error = 2 * error * deviations / n + error * error + u * (std::sqrt(n) + 3) * s.variance;
  return s;
}

// (x − mean)·f(variance), where f falls; both may be off
template <class F>
void standardise(const Tensor64& x, const std::vector<std::size_t>& group, const Statistics& s, const F& f,
                 Tensor64& y) {
  const double u = roundoff(x.dtype), factor = f(s.variance);
  const double moved =
      std::max(f(std::max(0.0, s.variance - s.variance_error)) - factor, factor - f(s.variance + s.variance_error));
  for (const std::size_t i : group) {
    const double d = x.value[i] - s.mean, error = s.mean_error + u * std::abs(d);
    y.value[i] = d * factor;
    y.bound[i] = factor * error + (std::abs(d) + error) * moved + 6 * u * std::abs(y.value[i]);
    y.bound[i] = bound_within(y.bound[i], y.value[i], s.variance * static_cast<double>(group.size()), x.dtype);
  }
}

// The elements of x that share the places along the axes that are not reduced, in order
std::vector<std::vector<std::size_t>> groups_over(const Extents64& shape, const std::vector<bool>& reduced) {
  Extents64 kept = shape;
  for (std::size_t d = 0; d < kept.size(); ++d) kept[d] = reduced[d] ? 1 : kept[d];
  std::vector<std::vector<std::size_t>> groups(static_cast<std::size_t>(element_count(kept)));
  std::size_t i = 0;
  for_indices(shape, [&](Extents64 at) {
    for (std::size_t d = 0; d < at.size(); ++d) at[d] = reduced[d] ? 0 : at[d];
    groups[place(kept, at)].push_back(i++);
  });
  return groups;
}

// Blocks of `size` neighbours
std::vector<std::vector<std::size_t>> blocks(std::size_t elements, std::size_t size) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < elements; i += size) {
    groups.emplace_back();
    for (std::size_t k = i; k < i + size; ++k) groups.back().push_back(k);
  }
  return groups;
}

Tensor64 like(const Tensor64& x) {
  Tensor64 y = empty_tensor(x.shape);
  y.dtype = x.dtype;
  return y;
}

// y·scale + shift, with functions of the element's place
template <class Scale, class Shift>
void apply_affine(Tensor64& y, const Scale& scale, const Shift& shift) {
  const double u = roundoff(y.dtype);
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    const double product = y.value[i] * scale(i), sum = product + shift(i);
    if (!std::isfinite(sum)) y.bound[i] = 0;
    y.bound[i] = y.bound[i] * std::abs(scale(i)) + u * (std::abs(product) + std::abs(sum));
    y.value[i] = sum;
    if (!std::isfinite(sum)) y.bound[i] = 0;
  }
}

auto rsqrt_of(double eps) {
  return [eps](double variance) { return 1 / std::sqrt(variance + eps); };
}

void layer_norm(Call& call, bool centred) {
  const Tensor64& x = call.in(0);
  const std::size_t axis = call.axis(call.integer("axis", -1), x.shape.size());
  const auto size = static_cast<std::size_t>(product(x.shape, axis, x.shape.size()));
  const auto f = rsqrt_of(call.real("epsilon", 1e-5F));
  Tensor64 y = like(x);
  Extents64 shape = x.shape;
  for (std::size_t d = axis; d < shape.size(); ++d) shape[d] = 1;
  Tensor64 means = empty_tensor(shape), factors = empty_tensor(shape);
  std::size_t row = 0;
  for (const auto& group : blocks(size == 0 ? 0 : x.value.size(), size)) {
    const Statistics s = statistics_of(x, group, centred);
    standardise(x, group, s, f, y);
    means.value[row] = s.mean, means.bound[row] = s.mean_error;
    factors.value[row] = f(s.variance);
    factors.bound[row] = std::abs(f(std::max(0.0, s.variance - s.variance_error)) - f(s.variance)) +
                         4 * roundoff(x.dtype) * factors.value[row];
    ++row;
  }
  const std::vector<double> scale = expanded(call.in(1), x.shape);
  const std::vector<double> shift =
      call.has(2) ? expanded(call.in(2), x.shape) : std::vector<double>(x.value.size(), 0.0);
  apply_affine(
      y, [&](std::size_t i) { return scale[i]; }, [&](std::size_t i) { return shift[i]; });
  call.result(std::move(y));
  if (!centred) return;
  call.result(std::move(means), 1);
  call.result(std::move(factors), 2);
}

void define_layer_norm(Call& call) { layer_norm(call, true); }
void define_rms_norm(Call& call) { layer_norm(call, false); }

// Statistics of `groups` of channels of each image; vectors have an element a channel, or a group
void group_norm(Call& call, std::int64_t groups, bool vectors_of_groups) {
  const Tensor64& x = call.in(0);
  const std::int64_t channels = x.shape[1], pixels = product(x.shape, 2, x.shape.size());
  const auto f = rsqrt_of(call.real("epsilon", 1e-5F));
  Tensor64 y = like(x);
  const auto size = static_cast<std::size_t>(groups == 0 ? 0 : channels / groups * pixels);
  for (const auto& group : blocks(size == 0 ? 0 : x.value.size(), size))
    standardise(x, group, statistics_of(x, group, true), f, y);
  const auto element = [&](const Tensor64& v) {
    return [&, channels, pixels, groups](std::size_t i) {
      const std::int64_t c = static_cast<std::int64_t>(i) / pixels % channels;
      return v.value.at(static_cast<std::size_t>(vectors_of_groups ? c / (channels / groups) : c));
    };
  };
  apply_affine(y, element(call.in(1)), element(call.in(2)));
  call.result(std::move(y));
}

void define_group_norm(Call& call) { group_norm(call, call.integer("num_groups", 1), call.opset() < 21); }
void define_instance_norm(Call& call) { group_norm(call, call.in(0).shape[1], false); }

void define_batch_norm(Call& call) {
  const Tensor64 &x = call.in(0), &running_mean = call.in(3), &running_variance = call.in(4);
  const bool training = call.integer("training_mode", 0) != 0;
  const double eps = call.real("epsilon", 1e-5F), momentum = call.real("momentum", 0.9F), u = roundoff(x.dtype);
  const std::int64_t pixels = product(x.shape, std::min<std::size_t>(2, x.shape.size()), x.shape.size());
  const auto channel = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<std::int64_t>(i) / pixels % (x.shape.size() > 1 ? x.shape[1] : 1));
  };
  std::vector<bool> reduced(x.shape.size(), true);
  if (reduced.size() > 1) reduced[1] = false;
  Tensor64 y = like(x), means = like(running_mean), variances = like(running_variance);
  const auto groups = groups_over(x.shape, reduced);
  for (std::size_t c = 0; c < groups.size(); ++c) {
    Statistics s{running_mean.value.at(c), 0, running_variance.value.at(c), 0};
    if (training) s = statistics_of(x, groups[c], true);
    standardise(x, groups[c], s, rsqrt_of(eps), y);
    // with stored statistics the formula may be arranged as x·factor + (shift − mean·factor)
    const double factor = 1 / std::sqrt(s.variance + eps);
    for (const std::size_t i : groups[c])
      y.bound[i] += 2 * u * std::abs(factor) * (std::abs(x.value[i]) + std::abs(s.mean));
    means.value[c] = momentum * running_mean.value[c] + (1 - momentum) * s.mean;
    variances.value[c] = momentum * running_variance.value[c] + (1 - momentum) * s.variance;
    means.bound[c] = s.mean_error + 4 * u * (std::abs(running_mean.value[c]) + std::abs(s.mean));
    variances.bound[c] = s.variance_error + 4 * u * variances.value[c];
  }
  apply_affine(
      y, [&](std::size_t i) { return call.in(1).value[channel(i)]; },
      [&](std::size_t i) { return call.in(2).value[channel(i)]; });
  call.result(std::move(y));
  call.result(std::move(means), 1);
  call.result(std::move(variances), 2);
}

// x/(bias + alpha/size·Σ of the squares of neighbouring channels)^beta
void define_lrn(Call& call) {
  const Tensor64& x = call.in(0);
  const std::int64_t size = call.integer("size", 1);
  const double alpha = call.real("alpha", 1e-4F), beta = call.real("beta", 0.75F), bias = call.real("bias", 1);
  Tensor64 y = like(x);
  std::size_t to = 0;
  for_indices(x.shape, [&](Extents64 at) {
    const std::int64_t c = at[1];
    double squares = 0;
    for (at[1] = std::max<std::int64_t>(0, c - (size - 1) / 2); at[1] < std::min(x.shape[1], c + size / 2 + 1); ++at[1])
      squares += std::pow(x.value[place(x.shape, at)], 2);
    y.value[to] = x.value[to] / std::pow(bias + alpha / static_cast<double>(size) * squares, beta);
    y.bound[to] = roundoff(x.dtype) * (12 + std::sqrt(static_cast<double>(size))) * std::abs(y.value[to]);
    ++to;
  });
  call.result(std::move(y));
}

// Over the norm of each line; a line of zeros stays
void define_lp_normalization(Call& call) {
  const Tensor64& x = call.in(0);
  std::vector<bool> reduced(x.shape.size(), false);
  reduced[call.axis(call.integer("axis", -1), x.shape.size())] = true;
  const bool squares = call.integer("p", 2) == 2;
  Tensor64 y = like(x);
  for (const auto& group : groups_over(x.shape, reduced)) {
    double sum = 0;
    for (const std::size_t i : group) sum += squares ? x.value[i] * x.value[i] : std::abs(x.value[i]);
    const double norm = squares ? std::sqrt(sum) : sum, u = roundoff(x.dtype);
    const bool flushes = squares && x.dtype != DType::f64 && sum != 0 && sum < 0x1p-100;
    for (const std::size_t i : group) {
      y.value[i] = norm == 0 ? 0 : x.value[i] / norm;
      const double bound = u * (6 + std::sqrt(static_cast<double>(group.size()))) * std::abs(y.value[i]);
      y.bound[i] = flushes ? no_claim : bound_within(bound, y.value[i], sum, x.dtype);
    }
  }
  call.result(std::move(y));
}

// (x − mean)/(standard deviation + 1e-9)
void define_mean_variance(Call& call) {
  const Tensor64& x = call.in(0);
  std::vector<bool> reduced(x.shape.size(), false);
  for (const std::int64_t a : call.list("axes").value_or(std::vector<std::int64_t>{0, 2, 3}))
    reduced[call.axis(a, x.shape.size())] = true;
  Tensor64 y = like(x);
  for (const auto& group : groups_over(x.shape, reduced))
    standardise(
        x, group, statistics_of(x, group, true), [](double v) { return 1 / (std::sqrt(v) + 1e-9); }, y);
  call.result(std::move(y));
}

// Softmax and its logarithm along an axis; before opset 13 all axes from `axis` on are one
void softmax(Call& call, bool logarithm) {
  const Tensor64& x = call.in(0);
  const bool old = call.opset() < 13;
  const std::size_t axis = call.axis(call.integer("axis", old ? 1 : -1), x.shape.size());
  std::vector<bool> reduced(x.shape.size(), false);
  for (std::size_t d = axis; d < (old ? reduced.size() : axis + 1); ++d) reduced[d] = true;
  Tensor64 y = like(x);
  const double u = roundoff(x.dtype);
  for (const auto& group : groups_over(x.shape, reduced)) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0, moved = 0;
    for (const std::size_t i : group) top = std::isnan(x.value[i]) ? x.value[i] : std::max(top, x.value[i]);
    for (const std::size_t i : group) {
      const double d = x.value[i] - top, e = std::exp(d);
      sum += e;
      if (e > 0) moved += e * std::abs(d);  // what rounding the differences does to the sum
    }
    const double relative = 8 + std::sqrt(static_cast<double>(group.size())) + moved / sum;
    for (const std::size_t i : group) {
      const double d = x.value[i] - top, e = std::exp(d) / sum;
      y.value[i] = logarithm ? d - std::log(sum) : e;
      y.bound[i] = logarithm ? u * (2 * std::abs(d) + 2 * std::abs(std::log(sum)) + relative)
                   : e == 0  ? 0
                             : u * e * (relative + std::abs(d));
      if (!std::isfinite(y.value[i])) y.bound[i] = 0;
    }
  }
  call.result(std::move(y));
}

void define_softmax(Call& call) { softmax(call, false); }
void define_log_softmax(Call& call) { softmax(call, true); }

constexpr OnnxDefinition normalisation_table[] = {
    {"BatchNormalization", define_batch_norm},       {"GroupNormalization", define_group_norm},
    {"InstanceNormalization", define_instance_norm}, {"LRN", define_lrn},
    {"LayerNormalization", define_layer_norm},       {"LogSoftmax", define_log_softmax},
    {"LpNormalization", define_lp_normalization},    {"MeanVarianceNormalization", define_mean_variance},
    {"RMSNormalization", define_rms_norm},           {"Softmax", define_softmax}};

}  // namespace

std::span<const OnnxDefinition> normalisation_definitions() { return normalisation_table; }

}  // namespace unisono::float64
