#include "reference/network/decision.hpp"

#include <cmath>

namespace unisono::float64 {

Decision compared(double x, double y, bool result) { return {x - y, result ? 0.0 : 1.0}; }
Decision signed_as(double x, double result) { return {x, result == 0 ? 1.0 : 0.0}; }

Decision floored(double x) {
  const double step = std::nearbyint(x);
  return {x - step, x < step ? step : step - 1};
}

Decision ceiled(double x) {
  const double step = std::nearbyint(x);
  return {x - step, x > step ? step : step + 1};
}

Decision truncated(double x) {
  if (std::abs(x) <= 0.5) return {};
  return x > 0 ? floored(x) : ceiled(x);
}

Decision rounded(double x) {
  const double below = std::floor(x);
  return {x - (below + 0.5), std::nearbyint(x) == below ? below + 1 : below};
}

Decision chosen(const std::vector<double>& line, std::size_t best, bool smallest) {
  Decision next;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const double margin = smallest ? line[i] - line[best] : line[best] - line[i];
    if (i != best && margin < next.margin) next = {margin, static_cast<double>(i)};
  }
  return next;
}

void decide(Tensor64& result, std::size_t i, const Decision& decision) {
  if (!std::isfinite(decision.margin)) return;
  if (result.margin.empty()) {
    result.margin.assign(result.value.size(), std::numeric_limits<double>::infinity());
    result.other = result.value;
  }
  result.margin[i] = decision.margin;
  result.other[i] = decision.other;
}

}  // namespace unisono::float64
