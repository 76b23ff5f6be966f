/// A product by a transposed matrix reads the matrix as it lies: weights that a program gives with each call are
/// (outputs, inputs), as PyTorch has them, and nobody can transpose them ahead.

#include <algorithm>

#include "network/moves.hpp"

namespace unisono::network {

namespace {

// By a matrix that is no constant
operators::Gemm* product_of_computed(const Network& n, Operator& op) {
  auto* product = std::get_if<operators::Gemm>(&op.kind);
  return product != nullptr && !n[op.inputs[1]].is_constant() ? product : nullptr;
}

bool turns_matrix(const Operator& op) {
  const auto* t = std::get_if<operators::Transpose>(&op.kind);
  return t != nullptr && t->order == std::vector<int>{1, 0};
}

}  // namespace

Network turned_matrices(const Network& network) {
  Network n = network;
  std::vector<std::optional<TensorId>> turned(n.tensors.size());  // by tensor: the matrix of which it is the transpose
  std::vector<bool> was_read(n.tensors.size()), is_read(n.tensors.size());
  for (const TensorId id : n.outputs) is_read[id] = true;
  for (Operator& op : n.operators) {
    if (turns_matrix(op)) turned[op.output] = op.inputs[0];
    auto* product = product_of_computed(n, op);
    if (product != nullptr && turned[op.inputs[1]]) {
      was_read[op.inputs[1]] = true;
      op.inputs[1] = *turned[op.inputs[1]], product->transpose_b = !product->transpose_b;
    }
    for (const TensorId id : op.inputs) is_read[id] = true;
  }
  std::erase_if(n.operators, [&](const Operator& op) { return was_read[op.output] && !is_read[op.output]; });
  return n;
}

}  // namespace unisono::network
