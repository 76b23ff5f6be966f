#include "families/sm90/cost.hpp"

#include <cmath>

namespace unisono::families::sm90 {

double soft_max(std::initializer_list<double> bounds) {
  constexpr double sharpness = LaunchConstants{}.sharpness;
  double sum = 0;
  for (const double x : bounds) sum += std::pow(x, sharpness);
  return std::pow(sum, 1 / sharpness);
}

double memory_us(const ConvProblem& problem, const plan::Device& device, double spilled) {
  const Conv2d& v = problem.conv;
  const auto bytes = static_cast<double>(problem.element_bytes());
  const double in = static_cast<double>(v.n * v.c) * static_cast<double>(v.h * v.w) * bytes;
  const double filter = static_cast<double>(problem.depth()) * static_cast<double>(v.k) * bytes * problem.phases() *
                        problem.task.products * static_cast<double>(problem.task.batched ? v.n : 1);
  const double out = static_cast<double>(problem.extents.rows()) * static_cast<double>(v.k);
  const double tensors = static_cast<double>(problem.before.tensor_bytes + problem.after.tensor_bytes);
  const plan::Resampling& r = problem.resampling;
  const double resampled = (r.upsampled ? 8.0 : 0.0) + (r.pooled ? 0.5 : 0.0) - (r.only ? 2.0 : 0.0);
  return (in + filter + out * (static_cast<double>(problem.store_bytes) + resampled + spilled + tensors)) /
         device.memory_tbps * 1e-6;
}

}  // namespace unisono::families::sm90
