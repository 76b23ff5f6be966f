#pragma once
/// A kernel for an epilogue graph that stands by itself, and what lies where in memory.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "unisono/graph.hpp"

namespace unisono::codegen {

/// A row of GraphParams::tensors (kernels/unisono/params/plain_params.cuh).
struct GraphTensor {
  enum class Kind : std::uint8_t { accumulator, operand, reduction, partials, store } kind{};
  std::string name;   ///< the operand's or the store's
  ValueId value = 0;  ///< the reduction; with partials, the first that they are for
  bool operator==(const GraphTensor&) const = default;
};

struct GraphKernel {
  /// Which CTAs it has, and what they make:
  /// elements: one a strip of an image's rows (GraphParams::strips), the stores;
  /// results: one a result of reductions within rows, f32, dense, with the axes reduced_axes(domain);
  /// partials: one a strip, the states of reductions over rows: f32, dense, [images, strips, columns of results,
  /// state_floats]; join: a warp a result, from all partials, as `results`;
  /// rows: the stores of graphs whose reductions run along rows. GraphParams::strips threads have a row, a power of
  /// two up to a warp, or all of a CTA's.
  enum class Part : std::uint8_t { elements, results, partials, join, rows } part{};
  std::string source, entry;
  std::vector<GraphTensor> tensors;
  ReduceDomain domain;   ///< what reductions run over
  int threads = 256;     ///< in a CTA
  int state_floats = 0;  ///< in partials and join
  bool reduces() const { return part != Part::elements && part != Part::rows; }
};

struct GraphStorage {
  DType element = DType::bf16;                 ///< the stores', all of which are written with axes [m,n]
  DType accumulator = DType::bf16;             ///< acc's in memory
  std::map<std::string, DType> operands = {};  ///< absent: f32
  std::set<std::string> stores_in_f32 = {};    ///< in rows of octets, which lie together
};

}  // namespace unisono::codegen
