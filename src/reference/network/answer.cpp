#include "reference/network/answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "unisono/error.hpp"

namespace unisono::float64 {
namespace {

constexpr double safety = 4;  // times what rounding does to an output, see check_network
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest_f32 = std::numeric_limits<float>::max();
constexpr double surely_beyond = largest_f32 * (1 + 1e-5);  // whatever the last bits are

/// Values move by `factor` times their bound; where there is none (infinity), they stay.
void disturb(Tensor64& x, double factor, std::mt19937_64& random) {
  for (std::size_t i = 0; i < x.value.size(); ++i) {
    if (std::isfinite(x.bound[i]) && std::isfinite(x.value[i]))
      x.value[i] += random() % 2 == 0 ? factor * x.bound[i] : -factor * x.bound[i];
  }
}

double difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::abs(a - b);
  return std::isnan(d) ? infinity : d;
}

/// A number of the reference as the output's type holds it: f32 has an infinity for what is beyond it.
double held(double x, DType t) { return t == DType::f32 && std::abs(x) > largest_f32 ? std::copysign(infinity, x) : x; }

bool has_no_claim(double x, double bound, DType t) {
  return t == DType::f32 && (bound == infinity || (std::isfinite(x) && std::abs(x) > largest_f32));
}

/// As f32 leaves it: infinite beyond its range, and something else where there is no claim.
void limit(Tensor64& x) {
  for (std::size_t i = 0; i < x.value.size(); ++i) {
    double& v = x.value[i];
    if (!has_no_claim(v, x.bound[i], x.dtype)) continue;
    const bool overflows = std::isfinite(v) && std::abs(v) > surely_beyond;
    v = overflows ? std::copysign(infinity, v) : std::isnan(v) ? 0 : std::numeric_limits<double>::quiet_NaN();
  }
}

}  // namespace

Tensors64 as_held(Tensors64 outputs) {
  for (auto& [name, t] : outputs)
    for (double& x : t.value) x = held(x, t.dtype);
  return outputs;
}

bool is_right(const std::vector<NetworkAgreement>& agreements) {
  const auto right = [](const NetworkAgreement& a) { return a.ok() && a.compared(); };
  const auto judged = [](const NetworkAgreement& a) { return a.judged() > 0; };
  return std::all_of(agreements.begin(), agreements.end(), right) &&
         std::any_of(agreements.begin(), agreements.end(), judged);
}

namespace {

Evaluation evaluation_of(const Network& network, const Tensors64& inputs, const TensorObserver& progress,
                         const Rounding& rounding) {
  return [&network, inputs, progress, rounding](const ResultObserver& observer) {
    const auto both = [&](const Operator& op, Tensor64& result) {
      if (progress) progress(op, result);
      observer(result);
    };
    return evaluate_network(network, inputs, both, rounding);
  };
}

}  // namespace

NetworkAnswer::NetworkAnswer(const Evaluation& exact, Evaluation rounded, int evaluations)
    : rounded_(std::move(rounded)) {
  bool overflows = false;
  expected_ = exact([&](Tensor64& x) {
    for (std::size_t i = 0; !overflows && i < x.value.size(); ++i)
      overflows = has_no_claim(x.value[i], x.bound[i], x.dtype);
  });
  if (overflows) limited_ = exact(limit);
  for (int i = 0; i < evaluations; ++i) evaluate_disturbed(1, i == 0 ? 1 : 100 + static_cast<std::uint64_t>(i));
  const bool exact_outputs =
      std::any_of(expected_.begin(), expected_.end(), [](const auto& x) { return !is_float(x.second.dtype); });
  for (std::uint64_t seed = 2; exact_outputs && seed < 4; ++seed)  // each both ways, so that a tie falls to either side
    for (const double factor : {safety, -safety}) evaluate_disturbed(factor, seed);
}

NetworkAnswer::NetworkAnswer(const Network& network, const Tensors64& inputs, const TensorObserver& progress,
                             const Rounding& rounding, int evaluations)
    : NetworkAnswer(evaluation_of(network, inputs, progress, {}), evaluation_of(network, inputs, progress, rounding),
                    evaluations) {}

void NetworkAnswer::evaluate_disturbed(double factor, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Decisions margins;
  disturbed_.push_back(rounded_([&](Tensor64& result) {
    disturb(result, factor, random);
    if (!result.margin.empty()) margins.push_back(result.margin);
  }));
  margins_.push_back(std::move(margins));
  if (factor != 1) return;
  for (const auto& [name, t] : disturbed_.back()) {
    const Tensor64& expected = expected_.at(name);
    double& moved = moved_[name];
    for (std::size_t i = 0; i < expected.value.size(); ++i) {
      const double shift = difference(t.value[i], expected.value[i]);
      if (std::isfinite(shift) && std::isfinite(held(expected.value[i], expected.dtype)) && is_claimed(name, i))
        moved = std::max(moved, shift);
    }
  }
}

std::vector<std::vector<bool>> NetworkAnswer::undecided() const {
  Decisions middle;
  rounded_([&](Tensor64& result) {
    if (!result.margin.empty()) middle.push_back(result.margin);
  });
  std::vector<std::vector<bool>> open;
  for (std::size_t k = 0; k < middle.size(); ++k) {
    open.emplace_back(middle[k].size(), false);
    for (std::size_t i = 0; i < middle[k].size(); ++i) {
      double moved = 0;
      for (const Decisions& d : margins_) {
        const bool same = k < d.size() && d[k].size() == middle[k].size();  // a branch may have made others
        const double shift = same ? std::abs(d[k][i] - middle[k][i]) : 0;
        if (std::isfinite(shift)) moved = std::max(moved, shift);
      }
      open[k][i] = moved > 0 && std::abs(middle[k][i]) <= 2 * moved;
    }
  }
  return open;
}

void NetworkAnswer::evaluate_undecided(int evaluations) {
  disturbed_.push_back(rounded_([](Tensor64& result) {
    for (double& x : result.value)
      if (result.dtype == DType::f32) x = static_cast<double>(static_cast<float>(x));
  }));
  const std::vector<std::vector<bool>> open = undecided();
  const auto any = [](const std::vector<bool>& o) { return std::find(o.begin(), o.end(), true) != o.end(); };
  if (std::none_of(open.begin(), open.end(), any)) return;
  std::mt19937_64 random(1);
  for (int n = 0; n < evaluations; ++n) {
    std::size_t k = 0;
    const auto turn = [&](Tensor64& result) {
      if (result.margin.empty()) return;
      const std::size_t own = k++;
      for (std::size_t i = 0; own < open.size() && i < std::min(open[own].size(), result.value.size()); ++i)
        if (open[own][i] && (n == 0 || random() % 2 == 0)) result.value[i] = result.other[i];
    };
    try {
      disturbed_.push_back(rounded_(turn));
    } catch (const UserError&) {  // an index that is beyond its axis there, or a division by 0
      continue;
    }
  }
}

bool NetworkAnswer::is_claimed(const std::string& output, std::size_t element) const {
  if (limited_.empty()) return true;
  const Tensor64& expected = expected_.at(output);
  return difference(limited_.at(output).value[element], held(expected.value[element], expected.dtype)) == 0;
}

double NetworkAnswer::error_of(const std::string& output, std::size_t element, double actual) const {
  const Tensor64& expected = expected_.at(output);
  return is_claimed(output, element) ? difference(actual, held(expected.value[element], expected.dtype)) : 0;
}

/// Integers and bool: equal, where rounding upstream leaves only one answer.
void NetworkAnswer::compare_exact(NetworkAgreement& a, const Tensor64& actual) const {
  for (std::size_t i = 0; i < actual.value.size(); ++i) {
    const double error = error_of(a.output, i, actual.value[i]), expected = expected_.at(a.output).value[i];
    const bool open = !is_claimed(a.output, i) || std::any_of(disturbed_.begin(), disturbed_.end(), [&](const auto& d) {
      return d.at(a.output).value[i] != expected;
    });
    a.undecided += open ? 1 : 0;
    if (open) continue;
    a.largest_error = std::max(a.largest_error, error);
    a.outside += error > 0 ? 1 : 0;
  }
}

void NetworkAnswer::compare_floats(NetworkAgreement& a, const Tensor64& actual) const {
  const Tensor64& expected = expected_.at(a.output);
  const double least = std::numeric_limits<float>::min();  // what is below may be flushed to 0
  a.tolerance = safety * moved_.at(a.output) + 0x1p-24 * a.largest_value;
  if (expected.dtype != DType::f64) a.tolerance += least;
  for (std::size_t i = 0; i < actual.value.size(); ++i) {
    const bool claimed = is_claimed(a.output, i);
    a.unclaimed += claimed ? 0 : 1;
    a.not_numbers += claimed && std::isnan(expected.value[i]) && std::isnan(actual.value[i]) ? 1 : 0;
    const double error = error_of(a.output, i, actual.value[i]);
    a.largest_error = std::max(a.largest_error, error);
    a.outside += error > a.tolerance ? 1 : 0;
  }
}

NetworkAgreement NetworkAnswer::compare(const std::string& name, const Tensor64& actual) const {
  const Tensor64& expected = expected_.at(name);
  NetworkAgreement a{.output = name, .elements = static_cast<std::int64_t>(actual.value.size())};
  if (actual.value.size() != expected.value.size()) {
    throw InternalError(
        fmt::format("output '{}' has {} elements, its reference {}", name, actual.value.size(), expected.value.size()));
  }
  for (std::size_t i = 0; i < expected.value.size(); ++i) {
    const double x = held(expected.value[i], expected.dtype);
    if (std::isfinite(x) && is_claimed(name, i)) a.largest_value = std::max(a.largest_value, std::abs(x));
  }
  if (is_float(expected.dtype)) {
    compare_floats(a, actual);
  } else {
    compare_exact(a, actual);
  }
  return a;
}

std::vector<NetworkAgreement> NetworkAnswer::compare(const Tensors64& outputs) const {
  std::vector<NetworkAgreement> agreements;
  agreements.reserve(outputs.size());
  for (const auto& [name, actual] : outputs) agreements.push_back(compare(name, actual));
  return agreements;
}

std::vector<NetworkAgreement> check_network(const Network& network, const Tensors64& inputs, const Tensors64& outputs,
                                            const TensorObserver& progress, const Rounding& rounding) {
  return NetworkAnswer(network, inputs, progress, rounding).compare(outputs);
}

}  // namespace unisono::float64
