#pragma once
/// Elementwise computations on tensors of any type that broadcast, several operators in one launch.

#include <span>
#include <string>
#include <vector>

#include "plan/expected.hpp"
#include "tensors/launch.hpp"
#include "tensors/node_text.hpp"
#include "tensors/strided.hpp"

namespace unisono::tensors {

/// One operator over values, which are counted: the inputs first, then the nodes in their order.
struct MapNode {
  NodeOperation op;
  std::vector<std::size_t> operands;
};

/// A value that is stored.
struct MapOutput {
  std::size_t value = 0;
  ElementType type;
};

struct MapProgram {
  std::vector<ElementType> inputs;
  std::vector<MapNode> nodes;
  std::vector<MapOutput> outputs;
};

/// Inputs and outputs of one program at most.
inline constexpr std::size_t most_map_tensors = 48;

/// A program's kernel.
struct MapText {
  KernelText kernel;
  bool reports = false;  ///< it may record faults
};
/// `chunk`: elements that a thread has, 4 or 8. Pure: the same program gives the same text. Throws InternalError for
/// operands of types that an operator does not take.
MapText map_text(const MapProgram& program, int chunk);

/// Tensors: the inputs, which broadcast to the outputs, then the outputs, which have one shape. An input may lie where
/// an output does if both walk alike.
plan::Expected<Launches> map(const MapProgram& program, std::span<const StridedTensor> tensors);

/// The program of one operator; its operands are of these types.
MapProgram program_of(const operators::Map& op, std::vector<ElementType> operands, ElementType result);

}  // namespace unisono::tensors
