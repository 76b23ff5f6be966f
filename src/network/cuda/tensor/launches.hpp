#pragma once
/// Launches of the kernels of src/tensors/, for tensors of any rank and element type.

#include <string>
#include <vector>

#include "network/cuda/input.hpp"
#include "plan/expected.hpp"
#include "tensors/launch.hpp"
#include "tensors/strided.hpp"

namespace unisono::network::gpu {

/// Memory of a tensor that launches read or write.
struct TensorArgument {
  Location at;
  Interval memory;
  double bytes = 0;  ///< taken by its elements
};

/// Launches, and their tensors by number.
struct TensorLaunches {
  tensors::Launches launches;
  std::vector<TensorArgument> arguments;

  /// What each launch is, for reports.
  std::string how() const;
};

/// A tensor as a whole: as kernels see it, and its memory.
struct WholeTensor {
  tensors::StridedTensor strided;
  TensorArgument argument;
};
/// `value`: the network's dtype of a tensor of these sizes.
WholeTensor whole_tensor(const PitchedTensor& tensor, const Sizes& sizes, DType value);

}  // namespace unisono::network::gpu
