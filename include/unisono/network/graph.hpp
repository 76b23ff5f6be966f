#pragma once
/// Networks: DAGs of tensors and operators.

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
  /// Row-major elements of an f32 constant; null otherwise. Shared, never written.
  std::shared_ptr<const std::vector<float>> constant = nullptr;
  /// Row-major elements, as bytes, of a constant of another dtype; null otherwise.
  std::shared_ptr<const std::vector<std::byte>> bytes = nullptr;
  /// The model computes it in f32 between casts from and to 16 bits. It is stored in f32 if a reader needs all digits;
  /// every other f32 tensor is stored in NetworkOptions::precision.
  bool keeps_f32 = false;
  /// The 16-bit type that the model gives this f32 tensor; f32 if it gives none.
  DType short_type = DType::f32;

  bool is_constant() const { return constant != nullptr || bytes != nullptr; }
  /// Returns the bytes of a constant's elements; empty if it is not a constant.
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

/// A network. Operators are in topological order. Every tensor has one source.
struct Network {
  std::string name;
  std::vector<NetworkTensor> tensors;
  std::vector<Operator> operators;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;

  const NetworkTensor& operator[](TensorId id) const { return tensors[id]; }
};

/// Returns the shape of an operator's result. What symbols leave open is checked when the network runs. `where` names
/// the node in errors.
Shape infer_shape(const OperatorKind& kind, std::span<const NetworkTensor* const> inputs, const std::string& where);

/// Returns the dtype of an operator's result. Throws UserError for an operand of a dtype that the operator does not
/// take.
DType infer_dtype(const OperatorKind& kind, std::span<const NetworkTensor* const> inputs, const std::string& where);

/// Throws UserError unless the network is well formed: order, sources, names of inputs and outputs, inferred shapes.
void verify(const Network& network);

/// Returns one line per operator: output, shape, operator, inputs.
std::string to_string(const Network& network);

}  // namespace unisono
