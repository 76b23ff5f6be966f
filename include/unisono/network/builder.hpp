#pragma once
/// Builds networks in C++.

#include <concepts>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "unisono/network/graph.hpp"
#include "unisono/safetensors.hpp"

namespace unisono {

class NetworkBuilder;

/// A handle to a tensor of a network under construction. Cheap to copy; valid as long as its builder lives.
class NetworkValue {
 public:
  NetworkValue(NetworkBuilder& builder, TensorId id) : builder_(&builder), id_(id) {}
  TensorId id() const { return id_; }
  NetworkBuilder& builder() const { return *builder_; }
  const Shape& shape() const;
  DType dtype() const;
  /// Returns the tensor. The reference is valid until the builder adds another.
  const NetworkTensor& tensor() const;
  /// Names the tensor and the operator that computes it.
  NetworkValue named(std::string name) const;

 private:
  NetworkBuilder* builder_;
  TensorId id_;
};

class NetworkBuilder {
 public:
  explicit NetworkBuilder(std::string name = "network");
  NetworkBuilder(const NetworkBuilder&) = delete;  // values point to their builder
  NetworkBuilder& operator=(const NetworkBuilder&) = delete;

  /// Adds an input.
  NetworkValue input(const std::string& name, Shape shape, DType dtype = DType::f32);
  /// Adds an f32 constant. `elements` are row-major and must fill the shape.
  NetworkValue constant(const std::string& name, Shape shape, std::vector<float> elements);
  /// Adds a constant of any dtype. `elements` are its bytes in memory, row-major.
  NetworkValue constant(const std::string& name, Shape shape, DType dtype, std::vector<std::byte> elements);
  /// Adds a constant that is a tensor of another network. Its elements are shared.
  NetworkValue constant(NetworkTensor tensor);
  NetworkValue constant(double scalar);
  /// Makes the tensors of a file available to weight(). Several files must not share a name.
  void use_weights(Safetensors file);
  /// Returns a constant from the files given to use_weights(). The same name and dtype give the same constant. f16 and
  /// bf16 are converted to f32 if requested; no other dtype is converted. Throws UserError for an unknown name, listing
  /// similar ones, and for another shape or dtype.
  NetworkValue weight(const std::string& name, Shape shape, DType dtype = DType::f32);
  /// Returns the names in the files that weight() was not called for, in order.
  std::vector<std::string> unused_weights() const;
  /// Appends an operator after inferring its shape; for generic code such as the ONNX importer. An empty name defaults
  /// to the operator's with a number.
  NetworkValue apply(OperatorKind kind, const std::vector<NetworkValue>& inputs, std::string name = {});
  /// Names a tensor, but not the operator that computes it.
  void name_tensor(NetworkValue value, std::string name);
  /// Makes the value an output. An empty name defaults to the tensor's. A value that is an input, a constant or already
  /// an output passes through an identity.
  void output(NetworkValue value, std::string name = {});
  /// Returns the network so far.
  const Network& so_far() const { return network_; }
  /// Returns the verified network. It must have at least one output.
  Network build() const;

 private:
  friend class NetworkValue;
  Network network_;
  std::vector<Safetensors> weight_files_;
  std::map<std::pair<std::string, DType>, TensorId> weights_;  // those asked for
};

struct GemmOptions {
  bool transpose_a = false, transpose_b = false;
  std::optional<NetworkValue> bias = {};
};
struct NetworkNormOptions {
  int groups = 1;  ///< group_norm only
  std::optional<NetworkValue> scale = {};
  std::optional<NetworkValue> shift = {};
  double eps = 1e-5;
};
struct PoolOptions {
  Pair kernel = 2;
  Pair stride = 2;
  Margins pad = 0;
  Pair dilation = 1;  ///< max_pool only
  bool ceil_mode = false;
  bool count_pad = false;  ///< average_pool only
};

NetworkValue conv2d(NetworkValue x, NetworkValue w, const ConvAttributes& attributes = {});
NetworkValue conv2d(NetworkValue x, NetworkValue w, NetworkValue bias, const ConvAttributes& attributes = {});
NetworkValue conv_transpose2d(NetworkValue x, NetworkValue w, const ConvAttributes& attributes = {});
NetworkValue conv_transpose2d(NetworkValue x, NetworkValue w, NetworkValue bias, const ConvAttributes& attributes = {});
NetworkValue gemm(NetworkValue a, NetworkValue b, GemmOptions options = {});
NetworkValue group_norm(NetworkValue x, NetworkNormOptions options);
NetworkValue instance_norm(NetworkValue x, NetworkNormOptions options = {});
NetworkValue layer_norm(NetworkValue x, NetworkNormOptions options = {});
NetworkValue rms_norm(NetworkValue x, NetworkNormOptions options = {});
NetworkValue batch_norm(NetworkValue x, NetworkValue scale, NetworkValue shift, NetworkValue mean,
                        NetworkValue variance, double eps = 1e-5);
NetworkValue softmax(NetworkValue x);
NetworkValue max_pool(NetworkValue x, PoolOptions options = {});
NetworkValue average_pool(NetworkValue x, PoolOptions options = {});
NetworkValue global_average_pool(NetworkValue x);
NetworkValue resize(NetworkValue x, operators::Resize options);
/// Nearest neighbour: output pixel i is input pixel floor(i/scale).
NetworkValue upsample(NetworkValue x, double scale = 2);
NetworkValue concat(const std::vector<NetworkValue>& inputs, int axis = 1);
NetworkValue pad(NetworkValue x, std::vector<std::int64_t> before, std::vector<std::int64_t> after, double value = 0);
NetworkValue reshape(NetworkValue x, std::vector<std::int64_t> shape);
NetworkValue flatten(NetworkValue x, int axis = 1);
NetworkValue transpose(NetworkValue x, std::vector<int> order);
NetworkValue identity(NetworkValue x);
NetworkValue elementwise(Op op, const std::vector<NetworkValue>& inputs, Attributes attr = {});

#define UNISONO_NETWORK_BINARY(NAME, OP)                                                           \
  inline NetworkValue NAME(NetworkValue x, NetworkValue y) { return elementwise(Op::OP, {x, y}); } \
  template <class T>                                                                               \
  requires std::integral<T> || std::floating_point<T> NetworkValue NAME(NetworkValue x, T y) {     \
    return elementwise(Op::OP, {x, x.builder().constant(static_cast<double>(y))});                 \
  }                                                                                                \
  template <class T>                                                                               \
  requires std::integral<T> || std::floating_point<T> NetworkValue NAME(T x, NetworkValue y) {     \
    return elementwise(Op::OP, {y.builder().constant(static_cast<double>(x)), y});                 \
  }
UNISONO_NETWORK_BINARY(operator+, add)
UNISONO_NETWORK_BINARY(operator-, sub)
UNISONO_NETWORK_BINARY(operator*, mul)
UNISONO_NETWORK_BINARY(operator/, div)
UNISONO_NETWORK_BINARY(min, min)
UNISONO_NETWORK_BINARY(max, max)
UNISONO_NETWORK_BINARY(pow, pow)
#undef UNISONO_NETWORK_BINARY
inline NetworkValue operator-(NetworkValue x) { return elementwise(Op::neg, {x}); }

// A function for each row of unisono/functions.def: abs(x), …, leaky_relu(x, slope = 0.01), …
#define UNISONO_FUNCTION(NAME, ...) \
  inline NetworkValue NAME(NetworkValue x) { return elementwise(Op::NAME, {x}); }
#define UNISONO_FUNCTION_1(NAME, P, P_FIELD, P_DEFAULT, ...)       \
  inline NetworkValue NAME(NetworkValue x, double P = P_DEFAULT) { \
    Attributes attr;                                               \
    attr.P_FIELD = P;                                              \
    return elementwise(Op::NAME, {x}, std::move(attr));            \
  }
#define UNISONO_FUNCTION_2(NAME, P, P_FIELD, P_DEFAULT, Q, Q_FIELD, Q_DEFAULT, ...)      \
  inline NetworkValue NAME(NetworkValue x, double P = P_DEFAULT, double Q = Q_DEFAULT) { \
    Attributes attr;                                                                     \
    attr.P_FIELD = P;                                                                    \
    attr.Q_FIELD = Q;                                                                    \
    return elementwise(Op::NAME, {x}, std::move(attr));                                  \
  }
#include "unisono/operations.def"

}  // namespace unisono
