#pragma once
/// The caller's arguments, checked and resolved for one run.

#include <optional>
#include <vector>

#include "runtime/cpu/accumulator.hpp"
#include "runtime/cpu/program.hpp"
#include "runtime/cpu/views.hpp"
#include "unisono/executable.hpp"

namespace unisono::cpu {

/// A tensor in memory, or a number.
struct BoundTensor {
  const void* data = nullptr;
  void* target = nullptr;  ///< outputs: data, to be written
  DType dtype = DType::f32;
  PixelStrides strides;
  /// Element (row, col) of the space stands at row·cols + col, in the lanes' own type: a register can be this memory.
  bool lane_by_lane = false;
  /// Outputs: more than the L2 caches hold, so nothing finds it there when the run is over.
  bool past_caches = false;
  double number = 0;  ///< if data is null
};

struct BoundArguments {
  std::vector<BoundTensor> operands;  ///< by Plan::operands
  std::vector<BoundTensor> outputs;   ///< by Graph::stores
  /// By output: its memory is also that of an operand or of the tensor that stands for acc, element by element. It is
  /// then written at the end of each block.
  std::vector<bool> shares_memory;
};

/// How tensors with axes [m,n] stand in memory, and what else a run reads.
struct Space {
  std::vector<std::int64_t> shape_mn;  ///< (batch, m, n)
  Layout layout = Layout::nhwc;
  bool reads_a = true, reads_b = true;
  bool is_product = false;
  bool is_dual = false;   ///< reads Arguments::right1 as it does right, or filter
  bool a_is_acc = false;  ///< Arguments::image stands for the accumulator
};

/// The arguments with a batch of one before each matrix that lacks it; nothing where none does.
std::optional<Arguments> with_batch(const Plan& plan, const Arguments& arguments, const Space& space);

/// Checks everything before anything runs. `known` are the names of all operands of the graph as it was before the
/// passes. Throws UserError for names that are missing, unknown or given twice, shapes, dtypes, strides and null
/// pointers, and for outputs that share memory with one another, or with an input otherwise than in place.
BoundArguments bind_arguments(const Plan& plan, const Arguments& arguments, const Space& space,
                              const std::vector<std::string>& known);

}  // namespace unisono::cpu
