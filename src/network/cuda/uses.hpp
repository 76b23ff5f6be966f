#pragma once
/// What a launch asks of memory and of the GPU.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unisono::network::gpu {

/// Bytes of one space of memory: one piece, or `rows` pieces of `width` bytes `pitch` bytes apart.
struct Interval {
  std::uint8_t space = 0;
  std::size_t begin = 0, width = 0, rows = 1, pitch = 0;

  std::size_t end() const { return begin + (rows - 1) * pitch + width; }
};

/// Whether they may have a byte in common. Exact for single pieces, and for columns of one tensor; never wrongly false.
bool overlap(const Interval& a, const Interval& b);

/// Memory and blocks of one launch.
struct Uses {
  std::vector<Interval> reads = {}, writes = {};
  bool exchanges = false;                ///< its blocks wait for one another: all of them must be on the GPU at once
  bool exclusive = false;                ///< a block of it leaves no room on its SM
  std::int64_t blocks = 1, threads = 1;  ///< threads of a block
};

}  // namespace unisono::network::gpu
