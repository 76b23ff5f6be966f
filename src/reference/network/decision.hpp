#pragma once
/// Where an operator's result jumps: comparisons, roundings to integers, the largest of some elements. An
/// implementation whose operands are off by more than the margin may say the other thing, and be right.

#include <cstddef>
#include <limits>
#include <vector>

#include "reference/network/tensor64.hpp"

namespace unisono::float64 {

struct Decision {
  double margin = std::numeric_limits<double>::infinity();  ///< signed: from where the result is another
  double other = 0;                                         ///< the result on the other side
};

/// For a comparison of x and y. Equality has its own side where x and y are equal: near it they may be.
Decision compared(double x, double y, bool result);
/// For the sign of x, and of whether it is 0.
Decision signed_as(double x, double result);

Decision floored(double x);
Decision ceiled(double x);
Decision truncated(double x);
Decision rounded(double x);

/// For the place of the largest or smallest element of a line: the other is that of the next best.
Decision chosen(const std::vector<double>& line, std::size_t best, bool smallest);

/// Sets the decision of element i of a result.
void decide(Tensor64& result, std::size_t i, const Decision& decision);

}  // namespace unisono::float64
