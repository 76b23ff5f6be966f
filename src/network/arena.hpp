#pragma once
/// Places buffers in one arena so that those in use at the same time do not overlap.

#include <cstddef>
#include <span>
#include <vector>

namespace unisono::network {

/// A buffer that is in use from step `first` to step `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0, last = 0;
};

struct ArenaPlan {
  std::vector<std::size_t> offsets;  ///< by buffer, multiples of arena_alignment
  std::size_t bytes = 0;             ///< the arena's size
};

inline constexpr std::size_t arena_alignment = 64;

/// What a buffer of so many bytes takes of an arena.
constexpr std::size_t arena_size(std::size_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

/// Largest buffers first; each goes into the smallest gap that holds it among the buffers placed before whose lifetimes
/// meet its own, or else on top of them (greedy by size: Pisarchyk and Lee, "Efficient memory management for deep
/// neural net inference", 2020). With reuse == false all lifetimes count as meeting. Where very many lifetimes meet one
/// another (4,000 buffers that all do are few), the smallest buffers go on top of what they meet, gaps or not. Throws
/// Unsupported if the sum of bytes does not fit.
ArenaPlan plan_arena(std::span<const Lifetime> buffers, bool reuse = true);

}  // namespace unisono::network
