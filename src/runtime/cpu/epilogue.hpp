#pragma once
/// Entry points for networks: an epilogue graph without a contraction, over a tensor that stands in for the
/// accumulator, and kernels that run again and again on the same memory.

#include <cstddef>
#include <memory>
#include <optional>

#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"

namespace unisono::cpu {

/// Compiles `graph` over the iteration space `space`. Acc, if the graph uses it, is Arguments::image: float32, shape
/// (images, height, width, cols), channels last. Arguments::filter is not read. Operands and outputs with axes [m,n]
/// have the same shape.
///
/// Views with axes [m,n] (acc, operands, outputs) may have a pixel stride above cols: strides {height·width·s, width·s,
/// s, 1} with s >= cols, as a channel slice of a wider tensor has. A graph that is elementwise only may write its
/// output over acc (the same view): every element is read before it is written.
Executable compile_epilogue(const Extents& space, const Graph& graph, const CompileOptions& options = {});

/// An execution with all its arguments in place, in memory that is not its own. One at a time.
class BoundRegion {
 public:
  virtual ~BoundRegion() = default;
  /// Reads what the tensors hold now. Checks nothing: that was done once.
  virtual void run() = 0;
};

/// A compiled region. Immutable; regions bound to different memory may run at once.
class RegionKernel {
 public:
  virtual ~RegionKernel() = default;
  /// Bytes of memory that a run needs, aligned as AlignedBuffer's; between runs anyone may use it.
  virtual std::size_t scratch_bytes() const = 0;
  /// Checks the arguments as Executable::run does, and throws as it does. The kernel must outlive the result.
  virtual std::unique_ptr<BoundRegion> bind_region(const Arguments& arguments, std::byte* scratch) const = 0;
};

/// Compiles `contraction` with its epilogue or, without one, an epilogue over `space`. `rounds`: what is multiplied is
/// f32 and may be rounded to bf16 first, which is done where it is faster. Throws as unisono::compile does.
std::shared_ptr<const RegionKernel> compile_region(const std::optional<Contraction>& contraction, const Extents& space,
                                                   const Graph& graph, const CompileOptions& options,
                                                   bool rounds = false);

}  // namespace unisono::cpu
