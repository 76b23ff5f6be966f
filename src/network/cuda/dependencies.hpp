#pragma once
/// Which launches of a step must wait for which, from the memory that they read and write.
///
/// Safety rests on three rules, each of which is an edge of the graph (docs/networks-running.md#branches):
///  - two launches that touch the same bytes, of which one writes, run in their order;
///  - two launches whose blocks wait for one another never run beside each other;
///  - two launches that would only share the GPU's SMs run in their order, because a chain of programmatic
///    launches is faster than a fork.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "network/cuda/uses.hpp"
#include "runtime/cuda/launch_order.hpp"

namespace unisono::network::gpu {

/// What decides whether two launches gain by running beside each other.
struct Capacity {
  std::int64_t sms, threads;  ///< threads of an SM
};

/// By launch: those ahead of it that it waits for, ascending, without those that others of them wait for.
using Order = cuda::LaunchOrder;

/// The order that the three rules ask for; the launches are given in an order that is right.
Order dependencies(std::span<const Uses> launches, const Capacity& capacity);

/// The same of launches in segments, each of which begins when the one ahead is over: without what is waited for in
/// another segment. `cuts`: the first launches of all segments but the first, ascending.
Order within_segments(Order order, std::span<const std::size_t> cuts);

}  // namespace unisono::network::gpu
