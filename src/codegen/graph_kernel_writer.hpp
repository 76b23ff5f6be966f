#pragma once
/// Writes one kernel for an epilogue graph that stands by itself.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "codegen/graph_kernel.hpp"
#include "codegen/names.hpp"
#include "plan/refusal.hpp"

namespace unisono::codegen {

class KernelWriter {
 public:
  KernelWriter(const Graph& g, const Names& names, const GraphStorage& storage) : g_(g), names_(names), s_(storage) {}

  /// What a kernel that was made is not to be used for: the first value, or tensor, that it has no place for.
  const std::optional<plan::Refusal>& refusal() const { return refusal_; }
  /// One result of reductions within rows a CTA.
  GraphKernel within_rows(const std::vector<ValueId>& values);
  GraphKernel partials(const std::vector<ValueId>& values);
  GraphKernel join(const std::vector<ValueId>& values);
  GraphKernel stores();
  /// Reductions along rows and the stores together: some threads have a row. `groups`: reductions of one value each, in
  /// the order in which they need each other.
  GraphKernel rows(const std::vector<std::vector<ValueId>>& groups);

 private:
  std::size_t place(const GraphTensor& tensor);
  void refuse(plan::Refusal refusal) {
    if (!refusal_) refusal_ = std::move(refusal);
  }
  std::string element_of(const GraphTensor& t, ValueId id);
  std::string offset_of(const Axes& axes, std::size_t tensor) const;
  GraphTensor tensor_of(ValueId id) const;
  bool is_leaf(ValueId id) const;
  std::string loaded(ValueId id);
  std::string octet_loads();
  std::string pass(const std::vector<ValueId>& values, std::size_t number);
  std::string elements();
  std::string given(ValueId id);
  void check(ValueId id);
  GraphKernel finish(const std::string& body, const std::string& run, int threads);

  const Graph& g_;
  const Names& names_;
  const GraphStorage& s_;
  std::vector<GraphTensor> tensors_;
  std::optional<plan::Refusal> refusal_;
  bool by_octets_ = false;        // operands [m,n] come in octets
  std::vector<ValueId> octets_;   // these
  bool in_registers_ = false;     // reductions are numbers of the thread's row
  std::vector<ValueId> reduced_;  // those that it has so far
};

/// Whether the operation is a reduction.
bool is_reduction(Op op);

}  // namespace unisono::codegen
