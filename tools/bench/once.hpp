#pragma once
/// Each contender once, for a profiler.

#include "bench/contest.hpp"

namespace unisono::bench {

/// Launches the case's best-predicted kernel, our bare one and each library's proposal `options.engine` once, outside
/// of any graph, on one set of operands, and prints what was launched, in order. Nothing is timed or compared: a
/// profiler such as ncu runs every launch several times. Returns whether all ran.
bool run_once(const Prepared& prepared, Peers& peers, const Options& options);

}  // namespace unisono::bench
