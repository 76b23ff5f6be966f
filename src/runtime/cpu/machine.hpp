#pragma once
/// Runs programs.

#include <vector>

#include "runtime/cpu/block_io.hpp"
#include "runtime/cpu/reductions.hpp"

namespace unisono::cpu {

/// Memory in which the lanes of a register stand: row r of the space at base + (r - origin)·pitch.
struct RegisterMemory {
  std::byte* base = nullptr;
  std::int64_t pitch = 0;   ///< bytes from row to row; 0: the same lanes for every block
  std::int64_t origin = 0;  ///< row of the space at `base`
};

/// Floats of a cache line.
inline constexpr std::int64_t cache_line_floats = 16;

/// A program with the places of its registers, for one worker.
class Machine {
 public:
  Machine(const VectorUnit& unit, const Plan& plan, const Program& program, const BoundArguments& bound,
          std::byte* uniform, std::byte* scratch);

  /// Where the registers of that home stand. Registers without such a call stand in scratch.
  void place(Home home, int index, RegisterMemory place);
  /// Result registers that are written to their output at once: see BoundArguments.
  void bind_output(int store, RegisterMemory place);
  /// Output `store` is written group by group, not block by block: its register stands in `buffer` until then, which
  /// has room for the rows of a group and cache_line_floats more.
  void defer_output(int store, std::byte* buffer);
  /// Before the first block of a strip that starts with this row of its image.
  void start_strip(std::int64_t image, std::int64_t row);
  /// After a group of blocks that ends before row `end`: writes what has been computed, but for the rows that fill no
  /// whole cache line of the output, unless it is the strip's last group.
  void finish_group(std::int64_t image, std::int64_t end, bool last);
  std::vector<SegmentAccumulator>& accumulators() { return accumulators_; }

  /// Repeats row `image` of uniform values over the rows of a block.
  void fill(const std::vector<Fill>& fills, std::int64_t image, std::int64_t block_rows);

  /// Runs all instructions on a block; uniform programs ignore it.
  void run(const RowRange& block);

 private:
  struct Lanes {
    std::byte* data;
    std::ptrdiff_t step;  // 0: scalar
  };
  Lanes lanes(int reg) const;
  std::int64_t count(int reg) const;
  LaneShape shape(int reg) const;
  bool is_scalar(int reg) const { return program_.registers[static_cast<std::size_t>(reg)].shape.scalar(); }
  void prefetch_next() const;
  void lane_wise(const Instruction& i) const;
  void lane_wise_by_rows(const Instruction& i, LaneArgs args) const;
  void call_unit(const Instruction& i, const LaneArgs& args) const;
  void integer(const Instruction& i) const;
  void round(const Instruction& i) const;
  void expand(const Instruction& i) const;
  void load(const Instruction& i) const;
  void load_uniform(const BoundTensor& t, int reg) const;
  void coordinate(const Instruction& i) const;
  void call(const Instruction& i) const;
  void row_reduce(const Instruction& i) const;
  void store(const Instruction& i) const;
  std::int64_t coordinate_at(Coordinate c, std::int64_t row, std::int64_t col) const;

  const VectorUnit& unit_;
  const Plan& plan_;
  const Program& program_;
  const BoundArguments& bound_;
  std::byte* uniform_;
  std::byte* scratch_;
  std::vector<RegisterMemory> places_;  // by register
  std::vector<bool> in_place_;          // by register: memory of the caller
  std::vector<int> written_;            // registers that stand in outputs
  std::vector<int> stored_by_;          // by store: the register bound to it, or -1
  struct Deferred {
    int store, reg;
    std::byte* buffer;
    std::int64_t first;  // row in the buffer's first place
  };
  std::vector<Deferred> deferred_;
  std::vector<SegmentAccumulator> accumulators_;
  RowRange block_;
};

/// Writes a value without m to its output.
void store_uniform(const VectorUnit& unit, const Plan& plan, const UniformSlot& slot, const std::byte* uniform,
                   const BoundTensor& to);

}  // namespace unisono::cpu
