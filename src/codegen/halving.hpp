#pragma once
/// silu and sigmoid are tanh of half their argument. Where the argument comes from a sum or product with a column, the
/// column can be halved instead, once a tile: exact, and one product less an element.

#include <set>
#include <span>
#include <string>

#include "plan/epilogue.hpp"

namespace unisono::codegen {

class Halving {
 public:
  Halving() = default;
  /// Decides for the fast forms; the accurate ones have no tanh.
  explicit Halving(const plan::Epilogue& epilogue);

  /// The value is held halved: an element, or a column.
  bool halves(ValueId id) const { return halved_.contains(id); }
  /// The expression of a halved element, or of silu and sigmoid of one; "" for other nodes. `inputs`: their texts.
  std::string expression(ValueId id, std::span<const std::string> inputs) const;

 private:
  bool feeds_tanh_only(ValueId id) const;
  bool is_own_column(ValueId id) const;
  bool consider(ValueId id);

  const Graph* g_ = nullptr;
  std::set<ValueId> halved_;
};

}  // namespace unisono::codegen
