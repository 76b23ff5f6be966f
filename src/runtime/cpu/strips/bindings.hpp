#pragma once
/// The caller's operands and outputs, checked and in the form that instructions read.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coda/contraction.hpp"
#include "coda/executable.hpp"
#include "coda/graph.hpp"
#include "runtime/cpu/views.hpp"

namespace coda::cpu {

/// What the program knows of operands and outputs at compile time, in the order of the graph's nodes and stores.
struct Operands {
  struct Operand {
    std::string name;
    Axes axes;
    DType storage = DType::f32;
    bool declared = false;  ///< the graph names the storage
    std::optional<double> default_value;
  };
  struct Output {
    std::string name;
    Axes axes;
    DType dtype = DType::f32;
  };
  std::vector<Operand> operands;
  std::vector<Output> outputs;
  std::map<ValueId, std::size_t> of_node;  ///< operand nodes to indices
  std::vector<std::string> pruned;         ///< operands of the graph as written that no output needs: may be bound
  std::vector<std::int64_t> mn_shape;      ///< shape in memory of [m,n]
  Layout layout = Layout::nhwc;
  bool matrix = false;  ///< [m,n] is (batch, m, n)
  Extents extents;
  bool in_place_allowed = false;  ///< one stage: an output may be written over an [m,n] operand of the same view

  std::vector<std::int64_t> shape_of(const Axes& axes) const;
  PixelStrides mn_strides(const std::vector<std::int64_t>& strides) const;
};

/// Collects them from a graph that has been through the pipeline; `written` is the graph before. Throws UserError for a
/// storage dtype that an operand cannot have.
Operands make_operands(const Graph& graph, const Graph& written, const Extents& extents,
                       std::vector<std::int64_t> mn_shape, Layout layout, bool matrix, const CompileOptions& options);

struct BoundTensor {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  PixelStrides mn;                ///< of [m,n]
  std::int64_t row = 0, col = 0;  ///< strides of other axes
};

struct Bindings {
  std::vector<BoundTensor> operands, outputs;
  std::vector<double> scalars;  ///< of operands without axes, by index; tensors' entries are not read
};

/// Checks names, shapes, dtypes, strides and overlaps. Throws UserError before anything is written.
Bindings bind(const Operands& operands, const Arguments& arguments, bool has_a, bool a_in_place);

}  // namespace coda::cpu
