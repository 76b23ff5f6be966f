#pragma once
/// Kernels for an epilogue graph that stands by itself: over a tensor of a network, or over the sums of a contraction
/// that another kernel left in memory. Kernels for each reduction, with those that share its input and domain, and a
/// last one for the stores. Pure: the same input gives the same text.

#include <map>
#include <string>
#include <vector>

#include "plan/expected.hpp"
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
  /// state_floats]; join: a warp a result, from all partials, as `results`.
  enum class Part : std::uint8_t { elements, results, partials, join } part{};
  std::string source, entry;
  std::vector<GraphTensor> tensors;
  ReduceDomain domain;   ///< what reductions run over
  int threads = 256;     ///< in a CTA
  int state_floats = 0;  ///< in partials and join
  bool reduces() const { return part != Part::elements; }
};

struct GraphStorage {
  DType element = DType::bf16;                 ///< the stores', all of which are written with axes [m,n]
  DType accumulator = DType::bf16;             ///< acc's in memory
  std::map<std::string, DType> operands = {};  ///< absent: f32
};

/// `optimised` has been through passes::run_pipeline. Refuses what no kernel has.
plan::Expected<std::vector<GraphKernel>> graph_kernels(const Graph& optimised, const GraphStorage& storage);

/// The kernels of plain/plain.cuh for a 16-bit type; `name` is one of to_string(PlainKernel).
enum class PlainKernel : std::uint8_t {
  enter,
  leave,
  pool,
  resize,
  copy_elements,
  copy_octets,
  reshape,
  direct,
  join_moments
};
std::string_view to_string(PlainKernel kernel);
/// One translation unit with all of them.
std::string plain_source(DType element);
/// Name of a kernel in it.
std::string plain_entry(PlainKernel kernel);

}  // namespace unisono::codegen
