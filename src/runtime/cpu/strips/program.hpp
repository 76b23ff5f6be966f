#pragma once
/// The epilogue as a program of the vector machine.
///
/// Values stand in registers (runs of lanes). A register that varies by row holds one run a row of the block at hand;
/// one that does not holds a single run, computed once a strip. Within a strip the program walks over blocks of rows
/// small enough that all registers stay in the first-level cache.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coda/contraction.hpp"
#include "coda/executable.hpp"
#include "coda/graph.hpp"
#include "passes/partition.hpp"
#include "runtime/cpu/strips/accumulator.hpp"
#include "runtime/cpu/strips/bindings.hpp"
#include "runtime/cpu/tiling.hpp"
#include "runtime/cpu/vector/unit.hpp"

namespace coda::cpu {

/// Where a register stands.
enum class Home : std::uint8_t { scratch, acc, kept, reduced };

/// A run of lanes, or one a row.
struct Register {
  Home home = Home::scratch;
  std::size_t offset = 0;  ///< bytes in the worker's scratch; or index of the kept value or the reduction
  std::int64_t width = 1;  ///< lanes of a run: 1, groups or cols
  bool per_row = false;
  bool per_image = false;  ///< reduced: one result an image
  bool wide = false;       ///< double lanes, else float

  std::size_t lane_bytes() const { return wide ? sizeof(double) : sizeof(float); }
  bool scalar() const { return width == 1 && !per_row; }
  /// Lanes in memory of one run: a scalar is repeated.
  std::int64_t run() const { return scalar() ? static_cast<std::int64_t>(scalar_lanes) : width; }
};

/// What an instruction sees: where the block stands, and the memory of this run.
struct Frame {
  const Bindings* bindings = nullptr;
  std::int64_t image = 0;
  std::int64_t first_row = 0;  ///< over all images
  std::int64_t rows = 0;       ///< of the block
  std::int64_t segment = 0;    ///< over all images
  std::int64_t row_in_segment = 0;
  std::byte* registers = nullptr;
  float* acc = nullptr;  ///< of the block
  std::byte* kept = nullptr;
  std::byte* reduced = nullptr;
  std::byte* partial = nullptr;
};

using Instruction = std::function<void(const Frame&)>;

/// A value kept from one stage to a later one: rows·width lanes.
struct KeptValue {
  ValueId value{};
  std::size_t offset = 0;
  std::int64_t width = 1;
  bool wide = false;
};

/// A reduction over rows: partial results by segment, merged when the stage is done.
struct RowReduction {
  ValueId value{};
  Collect collect{};
  std::int64_t input_width = 1, width = 1;
  bool wide_input = false, wide = false, integral = false;
  std::size_t partial_offset = 0;  ///< [segment][first, second][input_width]
  std::size_t result_offset = 0;   ///< [image or 1][run]
  std::size_t partial_bytes() const { return static_cast<std::size_t>(2 * input_width) * (wide_input ? 8 : 4); }
};

/// One stage of the partition as instructions.
struct StageProgram {
  std::vector<Instruction> per_strip;  ///< values that do not vary by row
  std::vector<Instruction> per_block;
  std::vector<std::size_t> reductions;  ///< indices into Program::reductions, merged at the end
  std::vector<Instruction> finish;      ///< once an image, after the merge: outputs without rows
  std::vector<bool> finish_once;        ///< parallel to finish: run for the first image only
  bool reads_acc = false;
};

struct Program {
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Extents extents;
  std::vector<StageProgram> stages;
  std::vector<KeptValue> kept;
  std::vector<RowReduction> reductions;
  int kept_acc = -1;  ///< index in kept of the accumulator, which is then computed in place
  std::int64_t block_rows = 1;
  std::size_t register_bytes = 0, kept_bytes = 0, reduced_bytes = 0, partial_bytes = 0;
};

/// Translates `graph`, which has been through the pipeline, into `program`, which must stay where it is: instructions
/// refer to it. Throws Unsupported for a user function without a callable.
void make_program(Program& program, const Graph& graph, const passes::Partition& partition, const Tiling& tiling,
                  const Operands& operands, const VectorUnit& unit);

/// Merges the partial results of a reduction over segments (in order) and columns of a group into its results.
void merge_reduction(const Graph& graph, const Program& program, const RowReduction& r, const Tiling& tiling,
                     std::byte* partial, std::byte* reduced);

/// Address of the first lane of a register in the frame's block.
inline std::byte* address(const Register& r, const Frame& f, const Program& p) {
  switch (r.home) {
    case Home::scratch: return f.registers + r.offset;
    case Home::acc: return reinterpret_cast<std::byte*>(f.acc);
    case Home::kept: {
      const KeptValue& k = p.kept[r.offset];
      return f.kept + k.offset + static_cast<std::size_t>(f.first_row * k.width) * (k.wide ? 8 : 4);
    }
    case Home::reduced: {
      const RowReduction& d = p.reductions[r.offset];
      return f.reduced + d.result_offset +
             static_cast<std::size_t>((r.per_image ? f.image : 0) * r.run()) * r.lane_bytes();
    }
  }
  return nullptr;
}

}  // namespace coda::cpu
