#pragma once
/// Elementwise operators, operators that move elements and reductions along lines, one behind another, in one launch:
/// a thread computes elements of the result from the places of the tensors that they come from.

#include <span>
#include <string>
#include <vector>

#include "plan/expected.hpp"
#include "tensors/launch.hpp"
#include "tensors/node_text.hpp"
#include "tensors/strided.hpp"

namespace unisono::tensors {

/// A tensor that is no more than text: its shape, and what its elements are.
struct ChainNode {
  enum class Kind : std::uint8_t {
    tensor,   ///< that of this number, whose shape is this one's
    number,   ///< a number
    map,      ///< an operator on elements of the operands, which broadcast
    reshape,  ///< the operand's elements in the same order
    permute,  ///< axis i is the operand's axis order[i]
    range,    ///< along axis i from begin[i] in steps of step[i], which may be negative
    pick,     ///< along `axis` the operand's place begin[0] + the sum of step[i] times digit i, of digits below
              ///< parts[i]; without these, what the dense tensor of this number says
    repeat,   ///< axes of the operand as often as they fit
    join,     ///< the operands one behind another along `axis`
    reduce,   ///< a fold of the operand along `axis`, which has extent 1 here
  };
  Kind kind{};
  Extents shape;
  std::vector<std::size_t> operands = {};  ///< nodes before this one
  std::size_t tensor = 0;
  double number = 0;
  NodeOperation op = {};
  std::vector<int> order = {};
  Extents begin = {}, step = {}, parts = {};
  int axis = 0;
  ReduceOp reduction = {};
};

struct ChainProgram {
  std::vector<ChainNode> nodes;
  std::size_t inputs = 0;            ///< tensors that are read
  std::vector<std::size_t> results;  ///< nodes that are stored, all of as many elements
  std::size_t most_lines = 3000;     ///< how many its text may have
};

/// Tensors: the inputs, then the results. Refuses what is too large for one kernel, operators that may fail, and
/// reductions along other lines than the first result's innermost axis in memory, which has as many elements.
plan::Expected<Launches> chain(const ChainProgram& program, std::span<const StridedTensor> tensors);

}  // namespace unisono::tensors
