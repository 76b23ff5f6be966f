#include "training/optimiser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "training/patterns.hpp"
#include "unisono/error.hpp"

namespace unisono::training {

namespace {

void check_range(const char* name, double x, double low, double high, bool includes_high) {
  if (x >= low && (x < high || (includes_high && x == high))) return;
  throw UserError(fmt::format("optimiser: {} is {}; expected a number from {} {} {}", name, x, low,
                              includes_high ? "to" : "to below", high));
}

constexpr double largest_number = 1e30;

void adamw(LearntParameter& p, std::span<const float> gradient, float scale, const Optimiser& o, const Rates& rates,
           std::int64_t update) {
  const auto b1 = static_cast<float>(1 - o.beta1), b2 = static_cast<float>(o.beta2),
             b2_rest = static_cast<float>(1 - o.beta2), eps = static_cast<float>(o.eps), root = root_of(o, update);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float g = gradient[i] * scale;
    float &m = p.first[i], &v = p.second[i];
    m += b1 * (g - m);
    v = v * b2 + b2_rest * g * g;
    p.values[i] = p.values[i] * rates.decay - rates.rate * m / (std::sqrt(v) / root + eps);
  }
}

void sgd(LearntParameter& p, std::span<const float> gradient, float scale, const Optimiser& o, const Rates& rates,
         std::int64_t update) {
  const auto momentum = static_cast<float>(o.momentum);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    float g = gradient[i] * scale + rates.decay * p.values[i];
    if (!p.first.empty()) {
      float& buffer = p.first[i];
      buffer = update == 1 ? g : momentum * buffer + g;
      g = o.nesterov ? g + momentum * buffer : buffer;
    }
    p.values[i] -= rates.rate * g;
  }
}

}  // namespace

void check(const Optimiser& o) {
  check_range("beta1", o.beta1, 0, 1, false);
  check_range("beta2", o.beta2, 0, 1, false);
  check_range("eps", o.eps, 0, largest_number, true);
  check_range("momentum", o.momentum, 0, 1, false);
  check_range("weight_decay", o.weight_decay, 0, largest_number, true);
  check_range("clip_norm", o.clip_norm, 0, largest_number, true);
  check_range("accumulate", o.accumulate, 1, 1'000'000, true);
  check_range("average", o.average, 0, 1, false);
  if (o.nesterov && (o.kind != Optimiser::Kind::sgd || o.momentum == 0))
    throw UserError("optimiser: nesterov only applies to sgd with momentum");
  for (const ParameterGroup& g : o.groups) {
    check_range("a group's weight_decay", g.weight_decay, 0, largest_number, true);
    check_range("a group's learning_rate", g.learning_rate, 0, largest_number, true);
  }
}

std::vector<LearntParameter> learnt_parameters(const std::vector<NetworkParameter>& parameters, const Optimiser& o) {
  std::vector<LearntParameter> all;
  std::vector<bool> used(o.groups.size(), false);
  for (const NetworkParameter& p : parameters) {
    LearntParameter& l = all.emplace_back();
    l.name = p.name, l.shape = p.shape, l.values = *p.values, l.weight_decay = o.weight_decay;
    const std::size_t count = l.values.size();
    if (o.kind == Optimiser::Kind::adamw || o.momentum != 0) l.first.assign(count, 0.0f);
    if (o.kind == Optimiser::Kind::adamw) l.second.assign(count, 0.0f);
    if (o.average != 0) l.average = l.values;
    if (o.accumulate > 1) l.accumulated.assign(count, 0.0f);
    bool is_in_group = false;
    for (std::size_t i = 0; i < o.groups.size(); ++i) {
      if (!matches(o.groups[i].names, p.name)) continue;
      used[i] = true;
      if (!is_in_group) l.weight_decay = o.groups[i].weight_decay, l.learning_rate = o.groups[i].learning_rate;
      is_in_group = true;
    }
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused != used.end())
    throw UserError(fmt::format("optimiser: group '{}' names no parameter",
                                o.groups[static_cast<std::size_t>(unused - used.begin())].names));
  return all;
}

double norm_of(std::span<const std::vector<float>> gradients) {
  double sum = 0;
  for (const auto& g : gradients)
    for (const float x : g) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

Rates rates_of(const Optimiser& o, double weight_decay, double factor, double learning_rate, std::int64_t update) {
  const double rate = learning_rate * factor;
  if (o.kind == Optimiser::Kind::sgd) return {static_cast<float>(weight_decay), static_cast<float>(rate)};
  return {static_cast<float>(1 - rate * weight_decay),
          static_cast<float>(rate / (1 - std::pow(o.beta1, static_cast<double>(update))))};
}

float root_of(const Optimiser& o, std::int64_t update) {
  return static_cast<float>(std::sqrt(1 - std::pow(o.beta2, static_cast<double>(update))));
}

void update(LearntParameter& p, std::span<const float> gradient, double scale, const Optimiser& o, double learning_rate,
            std::int64_t update) {
  const Rates rates = rates_of(o, p.weight_decay, p.learning_rate, learning_rate, update);
  (o.kind == Optimiser::Kind::adamw ? adamw : sgd)(p, gradient, static_cast<float>(scale), o, rates, update);
  const auto keep = static_cast<float>(o.average), rest = static_cast<float>(1 - o.average);
  for (std::size_t i = 0; i < p.average.size(); ++i) p.average[i] = keep * p.average[i] + rest * p.values[i];
}

}  // namespace unisono::training
