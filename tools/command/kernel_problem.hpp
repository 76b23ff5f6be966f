#pragma once
/// An epilogue over one contraction with its data: what `unisono run` of a text works on.

#include <cstdint>
#include <string>
#include <vector>

#include "command/arguments.hpp"
#include "command/execution.hpp"
#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"

namespace unisono::command {

/// What the kernel reads.
struct KernelInput {
  std::string name;  ///< image and filter, or left and right, then the operands
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;      ///< in files: a product that is no batch has matrices
  std::vector<std::int64_t> in_memory;  ///< as the library takes it
  double reach = 1;                     ///< random floats are of -reach to reach
  bool optional = false;                ///< it has a default
};

/// A kernel with its arrays in the host's memory.
struct KernelProblem {
  Contraction contraction;
  Graph graph;
  std::vector<KernelInput> inputs;  ///< the two factors first
  Tensors arrays;                   ///< by the inputs' names; defaults are left out
  Tensors outputs;                  ///< by the stores' names, in files' shapes, poisoned
  std::vector<std::string> notes;   ///< how inputs were converted

  /// Views of the arrays and outputs.
  unisono::Arguments arguments();
};

/// How many of KernelProblem::inputs are multiplied, the first ones: left and right, or image and filter, and of
/// a dual one right1.
std::ptrdiff_t factor_count(const Contraction& contraction);

/// Parses the text and the shape, then reads the files or draws random numbers. Throws UserError for whatever of it is
/// wrong: missing, unknown or doubled inputs, other shapes, and arrays that this machine's memory does not hold.
KernelProblem read_kernel_problem(const RunOptions& options);

}  // namespace unisono::command
