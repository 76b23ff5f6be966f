#pragma once
/// What the cost models of all families of this architecture share: docs/plan.md gives the sources.

#include <initializer_list>

#include "families/sm90/problem.hpp"

namespace unisono::families::sm90 {

/// A clk is a clock of an SM.
struct LaunchConstants {
  double launch_us = 3.0;   ///< a graph's node, from the end of the one before
  double ramp_us = 1.0;     ///< until a launch that memory bounds is at full speed
  double start_clk = 1500;  ///< barriers, descriptors, a CTA's first loads
  double sharpness = 10;    ///< exponent of the maximum over clocks, power and memory
  double load_clk = 900;    ///< from a load's issue to its data
};

/// A little more than the largest: what bounds a launch changes while it runs.
double soft_max(std::initializer_list<double> bounds);

/// Microseconds of what a launch reads and writes at the rate of memory; `spilled`: bytes of an element of the output
/// that are written and read back besides.
double memory_us(const ConvProblem& problem, const plan::Device& device, double spilled = 0);

}  // namespace unisono::families::sm90
