#pragma once
/// Builds epilogue graphs in C++. Equal in power to the text form (coda/text.hpp), which is parsed by means of it.
///
///     coda::GraphBuilder g;
///     auto h = g.acc() + g.operand("bias", coda::axes::n);
///     auto y = mish(group_norm(h, {.groups = 32, .scale = g.operand("gamma", coda::axes::n)}));
///     g.store(y, coda::DType::bf16, "y");
///     coda::Graph graph = g.build();
///
/// Wrong use (axes that do not fit, a value of another builder, …) throws UserError at the call that is wrong.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coda/graph.hpp"

namespace coda {

class GraphBuilder;

/// A value of a graph under construction: a handle, cheap to copy, valid as long as its builder lives.
class Value {
 public:
  Value(GraphBuilder& builder, ValueId id) : builder_(&builder), id_(id) {}
  ValueId id() const { return id_; }
  GraphBuilder& builder() const { return *builder_; }
  /// The node as it stands in the graph; the reference lasts until the builder's next call.
  const Node& node() const;
  DType dtype() const { return node().dtype; }
  Axes axes() const { return node().axes; }
  /// Gives the value a name for printing.
  Value named(std::string name) const;

 private:
  GraphBuilder* builder_;
  ValueId id_;
};

struct OperandOptions {
  std::optional<DType> storage = {};         ///< dtype in memory; if absent, as bound
  std::optional<double> default_value = {};  ///< scalars: value when unbound
};

class GraphBuilder {
 public:
  GraphBuilder() = default;
  GraphBuilder(const GraphBuilder&) = delete;  // values point to their builder
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  /// The accumulator of the contraction, f32, [m,n].
  Value acc();
  /// What the caller binds under `name`: [], [b], [m], [n], [b,n] or [m,n]. Asking again for a name returns the same
  /// value; with other axes or options it throws UserError.
  Value operand(const std::string& name, Axes axes = axes::scalar, OperandOptions options = {});
  Value constant(double value);
  Value index(Coordinate c);
  Value extent(Coordinate c);
  /// Makes `function` callable in this graph.
  void define(UserFunction function);
  /// Calls a user function by name. For one that returns nothing, the call becomes an effect, in order.
  std::optional<Value> call(const std::string& function, const std::vector<Value>& inputs);

  /// Adds an output. An empty name becomes the name of the value or operand, else "out0", "out1", … by position.
  void store(Value value, DType dtype, std::string name = {});

  /// Appends a node after inferring its dtype and axes (`requested` is read by Op::cast only); the way in for
  /// generic code such as the parser. A call of a function that returns nothing becomes an effect. Throws UserError for
  /// illegal input, and for leaves, which have their own functions above.
  Value node(Op op, const std::vector<Value>& inputs, Attributes attr = {}, std::optional<DType> requested = {});

  /// Nodes so far.
  std::size_t size() const { return graph_.nodes.size(); }

  /// The graph, verified. At least one store or effect is needed.
  Graph build() const;

 private:
  friend class Value;
  Value append(Node node);
  Value unique(Node node, std::uint64_t key);

  Graph graph_;
  // Leaves stand once in a graph; looked up by (op, bits of the constant or coordinate), and operands by name
  std::map<std::pair<Op, std::uint64_t>, ValueId> leaves_;
  std::map<std::string, ValueId> operands_;
  std::set<std::string> store_names_;
};

// Operators. A number stands for a constant.
template <class T>
concept Number = std::integral<T> || std::floating_point<T>;

#define CODA_BINARY(NAME, OP)                                                      \
  inline Value NAME(Value x, Value y) { return x.builder().node(Op::OP, {x, y}); } \
  template <Number T>                                                              \
  Value NAME(Value x, T y) {                                                       \
    return NAME(x, x.builder().constant(static_cast<double>(y)));                  \
  }                                                                                \
  template <Number T>                                                              \
  Value NAME(T x, Value y) {                                                       \
    return NAME(y.builder().constant(static_cast<double>(x)), y);                  \
  }
CODA_BINARY(operator+, add)
CODA_BINARY(operator-, sub)
CODA_BINARY(operator*, mul)
CODA_BINARY(operator/, div)
CODA_BINARY(operator<, less)
CODA_BINARY(operator<=, less_equal)
CODA_BINARY(operator>, greater)
CODA_BINARY(operator>=, greater_equal)
CODA_BINARY(operator==, equal)
CODA_BINARY(operator!=, not_equal)
CODA_BINARY(min, min)
CODA_BINARY(max, max)
CODA_BINARY(pow, pow)
#undef CODA_BINARY
inline Value logical_and(Value x, Value y) { return x.builder().node(Op::logical_and, {x, y}); }
inline Value logical_or(Value x, Value y) { return x.builder().node(Op::logical_or, {x, y}); }
inline Value fma(Value x, Value y, Value z) { return x.builder().node(Op::fma, {x, y, z}); }
inline Value select(Value condition, Value x, Value y) { return x.builder().node(Op::select, {condition, x, y}); }

#define CODA_UNARY(NAME) \
  inline Value NAME(Value x) { return x.builder().node(Op::NAME, {x}); }
CODA_UNARY(logical_not)
CODA_UNARY(abs)
CODA_UNARY(sqrt)
CODA_UNARY(rsqrt)
CODA_UNARY(reciprocal)
CODA_UNARY(square)
CODA_UNARY(exp)
CODA_UNARY(log)
CODA_UNARY(log1p)
CODA_UNARY(tanh)
CODA_UNARY(erf)
CODA_UNARY(sin)
CODA_UNARY(cos)
CODA_UNARY(sigmoid)
CODA_UNARY(relu)
CODA_UNARY(relu6)
CODA_UNARY(silu)
CODA_UNARY(mish)
CODA_UNARY(gelu)       // x·Φ(x), by erf
CODA_UNARY(gelu_tanh)  // the tanh approximation of gelu
CODA_UNARY(hardswish)  // x·relu6(x + 3)/6
CODA_UNARY(softplus)
CODA_UNARY(logsigmoid)
CODA_UNARY(one_hot)
#undef CODA_UNARY
inline Value operator-(Value x) { return x.builder().node(Op::neg, {x}); }
Value leaky_relu(Value x, double slope = 0.01);
Value elu(Value x, double alpha = 1.0);
Value hardsigmoid(Value x, double alpha = 1.0 / 6, double beta = 0.5);
Value clamp(Value x, double lower, double upper);
Value cast(Value x, DType dtype);

// Reductions. Without arguments: over everything.
inline constexpr ReduceDomain over_all{.rows = true, .cols = true};
inline constexpr ReduceDomain over_m{.rows = true};
inline constexpr ReduceDomain over_n{.cols = true};
inline constexpr ReduceDomain per_image_over_m{.rows = true, .per_image = true};
inline constexpr ReduceDomain per_image_over_all{.rows = true, .cols = true, .per_image = true};
Value sum(Value x, ReduceDomain domain = over_all);
Value mean(Value x, ReduceDomain domain = over_all);
Value reduce_max(Value x, ReduceDomain domain = over_all);
Value reduce_min(Value x, ReduceDomain domain = over_all);
Value sum_squares(Value x, ReduceDomain domain = over_all);
Value variance(Value x, ReduceDomain domain = over_all);

struct NormOptions {
  int groups = 1;  ///< group_norm only
  std::optional<Value> scale = {};
  std::optional<Value> shift = {};
  double eps = 1e-5;
};
Value group_norm(Value x, NormOptions options);
Value instance_norm(Value x, NormOptions options = {});
Value layer_norm(Value x, NormOptions options = {});
Value rms_norm(Value x, NormOptions options = {});
/// With the statistics of this batch (training). Batch normalisation with stored statistics is plain arithmetic.
Value batch_norm(Value x, NormOptions options = {});
Value softmax(Value x, ReduceDomain domain = over_n);

}  // namespace coda
