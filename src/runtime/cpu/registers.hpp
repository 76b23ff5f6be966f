#pragma once
/// Where the registers of a program stand.

#include "runtime/cpu/program.hpp"

namespace unisono::cpu {

/// Lanes of a register when a block has `block_rows` rows.
inline std::int64_t lanes_of(const LaneShape& s, std::int64_t block_rows) {
  if (s.scalar()) return static_cast<std::int64_t>(scalar_lanes);
  return (s.rows == LaneShape::block ? block_rows : s.rows) * s.cols;
}

/// Bytes of an array of that shape, aligned; a scalar takes a whole vector.
std::size_t array_bytes(const LaneShape& shape, bool wide, std::int64_t block_rows = 1);

/// Largest number of scratch registers that are alive at once.
int live_registers(const Program& program);

/// Gives scratch registers of a uniform program places at the end of the run's uniform memory.
void allocate_uniform(Program& program, Plan& plan);

/// Gives scratch registers of a tile program places in the worker's memory: two share one if they are never alive at
/// the same time. Sets Program::scratch_bytes.
void allocate_tile(Program& program, const Plan& plan, std::int64_t block_rows);

}  // namespace unisono::cpu
