#pragma once
/// Learning rates by step.

#include <cstdint>

namespace unisono::training {

struct Schedule {
  enum class Kind : std::uint8_t { constant, cosine } kind = Kind::constant;
  double rate = 1e-3;     ///< after the warm-up
  double final_rate = 0;  ///< cosine: at the last step
  std::int64_t warm_up =
      0;                   ///< steps over which it rises in a line: rate/warm_up in the first, rate in the last of them
  std::int64_t steps = 1;  ///< in all
};

/// The rate of a step from 1 to `steps`.
double learning_rate(const Schedule& s, std::int64_t step);

}  // namespace unisono::training
