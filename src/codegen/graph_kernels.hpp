#pragma once
/// Kernels for an epilogue graph that stands by itself: over a tensor of a network, or over the sums of a contraction
/// that another kernel left in memory. One kernel for each reduction, with those that share its input and domain, and
/// a last one for the stores. Pure: the same input gives the same text.

#include <map>
#include <string>
#include <vector>

#include "coda/graph.hpp"

namespace coda::codegen {

/// A row of GraphParams::tensors (kernels/coda/plain_params.cuh).
struct GraphTensor {
  enum class Kind : std::uint8_t { accumulator, operand, reduction, store } kind{};
  std::string name;   ///< of the operand or the store
  ValueId value = 0;  ///< of the reduction
  bool operator==(const GraphTensor&) const = default;
};

struct GraphKernel {
  std::string source, entry;
  std::vector<GraphTensor> tensors;
  /// Of a kernel of reductions: what they run over; a block of `threads` makes one result of each. Their results are
  /// f32, dense, with the axes reduced_axes(domain).
  bool reduces = false;
  ReduceDomain domain;
  int threads = 256;
};

struct GraphStorage {
  DType element = DType::bf16;                 ///< of the stores, all of which are written with axes [m,n]
  DType accumulator = DType::bf16;             ///< of acc in memory
  std::map<std::string, DType> operands = {};  ///< absent: f32
};

/// `optimised` has been through passes::run_pipeline. Throws Unsupported for what no kernel has.
std::vector<GraphKernel> graph_kernels(const Graph& optimised, const GraphStorage& storage);

/// The kernels of plain.cuh for a 16-bit type; `name` is one of to_string(PlainKernel).
enum class PlainKernel : std::uint8_t { enter, leave, pool, resize, copy_elements, copy_octets, reshape, direct };
std::string_view to_string(PlainKernel kernel);
/// One translation unit with all of them.
std::string plain_source(DType element);
/// Name of a kernel in it.
std::string plain_entry(PlainKernel kernel);

}  // namespace coda::codegen
