#include "training/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace unisono::training {

double learning_rate(const Schedule& s, std::int64_t step) {
  if (step <= s.warm_up) return s.rate * static_cast<double>(step) / static_cast<double>(s.warm_up);
  if (s.kind == Schedule::Kind::constant) return s.rate;
  const auto after = static_cast<double>(step - s.warm_up);
  const auto whole = static_cast<double>(std::max<std::int64_t>(1, s.steps - s.warm_up));
  return s.final_rate + (s.rate - s.final_rate) * (0.5 + 0.5 * std::cos(std::numbers::pi * after / whole));
}

}  // namespace unisono::training
