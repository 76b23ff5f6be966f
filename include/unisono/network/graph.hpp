#pragma once
/// Networks: tensors and operators in order.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unisono/dtype.hpp"
#include "unisono/network/operators.hpp"

namespace unisono {

/// Index of a tensor in its network.
using TensorId = std::uint32_t;

struct NetworkTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  /// Row-major elements of a constant of f32; null for what is computed or given. Shared, never written.
  std::shared_ptr<const std::vector<float>> constant = nullptr;
  /// The same for a constant of another dtype, as they lie in memory.
  std::shared_ptr<const std::vector<std::byte>> bytes = nullptr;
  /// The model computes it in f32 from tensors of 16 bits, between its casts: it is stored in f32 wherever a reader
  /// needs all digits. Every other tensor of f32 is stored as NetworkOptions::precision says.
  bool keeps_f32 = false;

  bool is_constant() const { return constant != nullptr || bytes != nullptr; }
  /// Elements of a constant as they lie in memory, whichever of the two holds them; none if it is no constant.
  std::span<const std::byte> elements() const {
    if (constant) return std::as_bytes(std::span(*constant));
    return bytes ? std::span(*bytes) : std::span<const std::byte>();
  }
};

struct Operator {
  OperatorKind kind;
  std::string name;
  std::vector<TensorId> inputs;
  TensorId output = 0;
};

/// A network. Operators stand in topological order; every tensor has one source.
struct Network {
  std::string name;
  std::vector<NetworkTensor> tensors;
  std::vector<Operator> operators;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;

  const NetworkTensor& operator[](TensorId id) const { return tensors[id]; }
};

/// Shape of the result of an operator on these inputs. Extents that are symbols are checked as far as they go (the
/// rest when the network runs). `where` names the node in errors.
Shape infer_shape(const OperatorKind& kind, std::span<const NetworkTensor* const> inputs, const std::string& where);

/// Its dtype; throws UserError for an operand of a dtype that the operator does not take.
DType infer_dtype(const OperatorKind& kind, std::span<const NetworkTensor* const> inputs, const std::string& where);

/// Throws UserError unless the network is well formed: order, sources, names of inputs and outputs, inferred shapes.
void verify(const Network& network);

/// One line an operator: output, shape, operator, inputs.
std::string to_string(const Network& network);

}  // namespace unisono
