#pragma once
/// Programs of the vector machine. They are data: lowering writes them, the machine runs them.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cpu/vector/unit.hpp"
#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::cpu {

/// Lanes of a register: `rows`·`cols`, row-major. In a tile program an extent of rows below 0 stands for the rows of
/// the block at hand.
struct LaneShape {
  static constexpr std::int64_t block = -1;

  std::int64_t rows = 1, cols = 1;
  bool operator==(const LaneShape&) const = default;
  bool scalar() const { return rows == 1 && cols == 1; }
};

/// Where a register's lanes stand.
enum class Home : std::uint8_t {
  scratch,      ///< memory of the worker, at `offset`
  constant,     ///< Program::constants, at `offset`
  uniform,      ///< memory of the run that all workers read, at `offset`
  replicated,   ///< scratch that repeats row `image` of a uniform value for each row of a block; `index` names the fill
  accumulator,  ///< the tile of accumulators; `index` 1: of a dual product's second
  kept,         ///< memory of the run, one element per row of the space and column; `index` names the buffer
  operand,      ///< what the caller binds, if it stands there lane by lane; else scratch. `index` names the operand
  output,       ///< likewise an output
};

struct Register {
  LaneShape shape;
  bool wide = false;  ///< double lanes
  Home home = Home::scratch;
  std::size_t offset = 0;
  int index = 0;
};

enum class Kind : std::uint8_t {
  lanes,       ///< VectorUnit function `code`
  normalise,   ///< VectorUnit::normalise with the end `code`
  widen,       ///< float lanes to double lanes
  narrow,      ///< double lanes to float lanes
  integer,     ///< two's-complement arithmetic `op` on double lanes that hold integers
  round,       ///< double lanes to the values of `dtype`, rounded once
  expand,      ///< repeats rows and columns of the source over those of the result
  load,        ///< operand `index` into the result, unless that is bound to it
  coordinate,  ///< fills with `coordinate`
  call,        ///< user function `index`; without a result if that is below 0
  row_reduce,  ///< runs of columns of each row to one lane each, by `row_result`
  reduce,      ///< reduction `index` of a uniform value
  accumulate,  ///< feeds accumulation `index`
  store,       ///< the source into output `index`, unless it is bound to it
};

struct Instruction {
  Kind kind{};
  Code code{};
  Op op{};
  RowResult row_result{};
  Coordinate coordinate{};
  DType dtype{};
  int index = 0;
  int result = -1;
  std::vector<int> source;
  std::array<double, 2> immediate{};
  bool by_rows = false;  ///< lanes, normalise: a source may have one column, which stands for all columns of its row
};

struct Program {
  std::vector<Register> registers;
  std::vector<Instruction> instructions;
  std::vector<double> constants;  ///< scalar_lanes copies each, as doubles or floats
  std::size_t scratch_bytes = 0;  ///< scratch memory of one worker
};

/// Operand of the graph, by node.
struct OperandInfo {
  std::string name;
  Axes axes;
  DType storage = DType::f32;
  std::optional<double> default_value;
  DType dtype = DType::f32;
  RowCoordinates rows = RowCoordinates::all;  ///< those of a row that it has in memory
};

/// A reduction over rows: which statistics of a value of the tiles, and which nodes come out of them.
struct Accumulation {
  ValueId input{};
  ReduceDomain domain;
  Collect collect{};
  bool wide = false;         ///< double lanes
  bool integer = false;      ///< modulo 2^32
  std::int64_t cols = 1;     ///< columns of the lanes that are accumulated
  std::int64_t results = 1;  ///< columns of the result: cols, or groups
  struct Result {
    Op op{};
    int slot = 0;  ///< uniform value that receives it
    DType dtype = DType::f32;
  };
  std::vector<Result> outputs;
};

/// A value without the axis m: an array in the memory of the run.
struct UniformSlot {
  LaneShape shape;
  bool wide = false;
  std::size_t offset = 0;
};

/// A replicated register and what fills it.
struct Fill {
  int slot = 0;
  int target = 0;  ///< register of the tile program
};

/// A value that is kept from one stage to a later one.
struct KeptBuffer {
  ValueId value{};
  std::int64_t cols = 1;
  bool wide = false;
};

struct StagePlan {
  Program uniform;  ///< before the tiles
  Program tile;     ///< over blocks of rows
  std::vector<Fill> fills;
  std::vector<Accumulation> accumulations;
  std::vector<int> uniform_stores;  ///< indices into Graph::stores, written when the stage is done
  bool walks_tiles = false;
  std::int64_t block_rows = 1;
};

/// Everything that a run needs to know about the epilogue.
struct Plan {
  Graph graph;  ///< after the passes
  Extents extents;
  std::vector<OperandInfo> operands;
  std::vector<UniformSlot> slots;
  std::vector<int> slot_of_value;  ///< by ValueId; -1: none
  std::size_t uniform_bytes = 0;
  Program leaves;  ///< loads operands and coordinates without m, once a run
  std::vector<KeptBuffer> kept;
  bool keeps_accumulator = false;
  std::vector<StagePlan> stages;
  std::vector<int> store_stage;    ///< by store: the stage that writes it
  std::vector<int> operand_stage;  ///< by operand: the last stage whose tiles read it; -1: none
  int accumulator_stage = -1;      ///< the last stage whose tiles read the accumulator; -1: none
  std::vector<std::string> notes;  ///< for describe()
  std::vector<std::shared_ptr<const UserFunction>> functions;
};

}  // namespace unisono::cpu
