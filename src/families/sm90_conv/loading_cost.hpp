#pragma once
/// Clocks in which the operands of a k-step come to shared memory.

#include "families/sm90/problem.hpp"
#include "families/sm90_conv/config.hpp"

namespace unisono::families::sm90_conv {

/// Clocks until the first step's operands are there, beyond those of a step of one atom, which start_clk has.
double fill_clk(const ConvConfig& c);

/// Clocks in which a warp on each scheduler loads a stage in pieces of 16 bytes.
double gather_clk(const ConvConfig& c);

/// Clocks in which the producer's warps make a stage of rows out of a window: 16 bytes read and written for every
/// chunk, 32 rows at a time.
double im2col_clk(const ConvConfig& c);

/// Clocks of TMA for a k-step's rows, of pixels and of filters.
double rows_clk(const ConvConfig& c, const sm90::ConvProblem& p, double taps);

}  // namespace unisono::families::sm90_conv
