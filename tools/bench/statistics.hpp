#pragma once
/// What is made of repeated times.

#include <span>
#include <string>
#include <vector>

namespace unisono::bench {

/// The middle value, or the mean of the two in the middle. Throws InternalError without values.
double median(std::vector<double> values);

/// A contender's times: rounds of repeated times of one launch, in µs.
struct Timing {
  double us = 0;      ///< median over all times of all rounds
  double spread = 0;  ///< largest minus smallest median of a round, over `us`
  double best = 0;    ///< the smallest time
  int times = 0;      ///< how many there were
  double hot = 0;     ///< median under a load without pauses; 0: not measured
};

/// Throws InternalError for no rounds, or a round without times.
Timing summary(std::span<const std::vector<double>> rounds);

/// exp of the mean of the logarithms. Throws InternalError without values, or for one that is not positive.
double geomean(std::span<const double> values);

}  // namespace unisono::bench
