#pragma once
/// Which launches of a step must wait for which, from the memory that they read and write.
///
/// Safety rests on three rules, each of which is an edge of the graph (docs/networks.md#branches):
///  - two launches that touch the same bytes, of which one writes, run in their order;
///  - two launches whose blocks wait for one another never run beside each other;
///  - two launches that would only share the GPU's SMs run in their order, because a chain of programmatic
///    launches is faster than a fork.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/replay.hpp"

namespace unisono::network::gpu {

/// Bytes of one space of memory: one piece, or `rows` pieces of `width` bytes `pitch` bytes apart.
struct Interval {
  std::uint8_t space = 0;
  std::size_t begin = 0, width = 0, rows = 1, pitch = 0;

  std::size_t end() const { return begin + (rows - 1) * pitch + width; }
};

/// Whether they may have a byte in common. Exact for single pieces, and for columns of one tensor; never wrongly false.
bool overlap(const Interval& a, const Interval& b);

/// What a launch asks of memory and of the GPU.
struct Uses {
  std::vector<Interval> reads = {}, writes = {};
  bool exchanges = false;                ///< its blocks wait for one another: all of them must be on the GPU at once
  bool exclusive = false;                ///< a block of it leaves no room on its SM
  std::int64_t blocks = 1, threads = 1;  ///< threads of a block
};

/// What decides whether two launches gain by running beside each other.
struct Capacity {
  std::int64_t sms = 132, threads = 2048;  ///< threads of an SM
};

/// Whether two launches, of which neither needs the other, should run beside each other: they fit on the GPU together.
bool worthwhile(const Uses& a, const Uses& b, const Capacity& capacity);

/// By launch: those ahead of it that it waits for, ascending, without those that others of them wait for.
using Order = cuda::LaunchOrder;

/// The order that the three rules ask for; the launches are given in an order that is right.
Order dependencies(std::span<const Uses> launches, const Capacity& capacity);

}  // namespace unisono::network::gpu
