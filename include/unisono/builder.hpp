#pragma once
/// Builds epilogue graphs in C++. Expresses everything the text form (unisono/text.hpp) can; the parser is built on it.
///
///     unisono::GraphBuilder g;
///     auto h = g.acc() + g.operand("bias", unisono::axes::n);
///     auto y = mish(group_norm(h, {.groups = 32, .scale = g.operand("gamma", unisono::axes::n)}));
///     g.store(y, unisono::DType::bf16, "y");
///     unisono::Graph graph = g.build();
///
/// Wrong use, such as axes that do not fit or a value of another builder, throws UserError at that call.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "unisono/graph.hpp"

namespace unisono {

class GraphBuilder;

/// A handle to a value of a graph under construction. Cheap to copy; valid as long as its builder lives.
class Value {
 public:
  Value(GraphBuilder& builder, ValueId id) : builder_(&builder), id_(id) {}
  ValueId id() const { return id_; }
  GraphBuilder& builder() const { return *builder_; }
  /// Returns the node. The reference is valid until the builder's next call.
  const Node& node() const;
  DType dtype() const { return node().dtype; }
  Axes axes() const { return node().axes; }
  /// Gives the value a name for printing.
  Value named(std::string name) const;

 private:
  GraphBuilder* builder_;
  ValueId id_;
};

template <class T>
concept Number = std::integral<T> || std::floating_point<T>;

/// An attribute of an operation: a number, which is compiled into the kernel, or a value, such as a scalar operand,
/// which the kernel reads at each run. An operation with a value is replaced by others that compute the same.
class NumberOrValue {
 public:
  template <Number T>
  NumberOrValue(T number) : held_(static_cast<double>(number)) {}
  NumberOrValue(Value value) : held_(value) {}
  const double* number() const { return std::get_if<double>(&held_); }  ///< null if it is a value
  const Value* value() const { return std::get_if<Value>(&held_); }     ///< null if it is a number

 private:
  std::variant<double, Value> held_;
};

/// A value in the form in which a store writes it. Only GraphBuilder::store() takes it.
struct FormedValue {
  Value value;
  StoreForm form = StoreForm::whole;
};
/// Max-pools an image by 2x2 pixels.
inline FormedValue max_pool_2x2(Value image) { return {image, StoreForm::max_pool_2x2}; }
/// Upsamples an image to twice its height and width by repeating each pixel.
inline FormedValue upsample_2x2(Value image) { return {image, StoreForm::upsample_2x2}; }
[[deprecated("upsample_2x2")]] inline FormedValue enlarge_2x2(Value image) { return upsample_2x2(image); }

struct OperandOptions {
  std::optional<DType> storage = {};         ///< dtype in memory; absent: CompileOptions::storage
  std::optional<double> default_value = {};  ///< value of every element when unbound; not for operands [m,n]
  /// [m] and [m,n]: the coordinates of rows along which its memory varies; it is repeated along the others.
  RowCoordinates rows = RowCoordinates::all;
  /// [m] and [m,n]: may be bound with any strides, on a GPU too. Otherwise tensors on a GPU must be dense.
  bool strided = false;
};

/// Options of a store.
struct StoreOptions {
  RoundingMode rounding = RoundingMode::nearest;
  /// The seed of stochastic rounding, an i32 scalar. The same seed gives the same bits.
  std::optional<Value> seed = {};
  bool strided = false;  ///< [m,n]: may be bound with any strides, on a GPU too
};

class GraphBuilder {
 public:
  GraphBuilder() = default;
  GraphBuilder(const GraphBuilder&) = delete;  // values point to their builder
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  /// Returns the accumulator of the contraction, f32 [m,n].
  Value acc();
  /// Returns an accumulator of a dual product or convolution (products = 2): `acc0` of its first right operand or
  /// filter (product 0), `acc1` of its second (product 1). A graph reads either acc(), or acc(1) and possibly acc(0).
  Value acc(int product);
  /// Returns the operand that the caller binds as `name`: [], [b], [m], [n], [b,n] or [m,n]. The same name gives the
  /// same value; other axes or options for it throw UserError.
  Value operand(const std::string& name, Axes axes = axes::scalar, OperandOptions options = {});
  Value constant(double value);
  Value index(Coordinate c);
  Value extent(Coordinate c);
  /// Makes `function` callable in this graph.
  void define(UserFunction function);
  /// Calls a user function by name. For one that returns nothing, the call becomes an effect, in order.
  std::optional<Value> call(const std::string& function, const std::vector<Value>& inputs);

  /// Adds an output. An empty name defaults to that of the value or operand, else to "out0", "out1", … by position.
  void store(Value value, DType dtype, std::string name = {});
  /// Adds an output with options. Rounding other than to nearest needs f16 or bf16 and is written out as a function
  /// call before an exact store.
  void store(Value value, DType dtype, std::string name, const StoreOptions& options);
  /// Adds an output in another form. An empty name defaults to one by position.
  void store(FormedValue formed, DType dtype, std::string name = {});

  /// Appends a node after inferring its dtype and axes; for generic code such as the parser. `requested` is the dtype
  /// of Op::cast. A call of a function that returns nothing becomes an effect. Throws UserError for invalid input, and
  /// for leaves, which have their own functions above.
  Value node(Op op, const std::vector<Value>& inputs, Attributes attr = {}, std::optional<DType> requested = {});

  /// Returns the number of nodes so far.
  std::size_t size() const { return graph_.nodes.size(); }

  /// Returns the verified graph. It must have at least one store or effect.
  Graph build() const;

 private:
  friend class Value;
  void add_store(Value value, DType dtype, std::string name, StoreForm form);
  Value rounded(Value value, DType dtype, const StoreOptions& options);
  Value append(Node node);
  Value unique(Node node, std::uint64_t key);

  Graph graph_;
  // Leaves stand once in a graph; looked up by (op, bits of the constant or coordinate), and operands by name
  std::map<std::pair<Op, std::uint64_t>, ValueId> leaves_;
  std::map<std::string, ValueId> operands_;
  std::set<std::string> store_names_;
  int reads_products_ = 0;  // 1: acc() was asked for, 2: acc(0) or acc(1) was
};

// Operators. A number stands for a constant.
#define UNISONO_BINARY(NAME, OP)                                                   \
  inline Value NAME(Value x, Value y) { return x.builder().node(Op::OP, {x, y}); } \
  template <Number T>                                                              \
  Value NAME(Value x, T y) {                                                       \
    return NAME(x, x.builder().constant(static_cast<double>(y)));                  \
  }                                                                                \
  template <Number T>                                                              \
  Value NAME(T x, Value y) {                                                       \
    return NAME(y.builder().constant(static_cast<double>(x)), y);                  \
  }
UNISONO_BINARY(operator+, add)
UNISONO_BINARY(operator-, sub)
UNISONO_BINARY(operator*, mul)
UNISONO_BINARY(operator/, div)
UNISONO_BINARY(operator<, less)
UNISONO_BINARY(operator<=, less_equal)
UNISONO_BINARY(operator>, greater)
UNISONO_BINARY(operator>=, greater_equal)
UNISONO_BINARY(operator==, equal)
UNISONO_BINARY(operator!=, not_equal)
UNISONO_BINARY(min, min)
UNISONO_BINARY(max, max)
UNISONO_BINARY(pow, pow)
#undef UNISONO_BINARY
inline Value logical_and(Value x, Value y) { return x.builder().node(Op::logical_and, {x, y}); }
inline Value logical_or(Value x, Value y) { return x.builder().node(Op::logical_or, {x, y}); }
inline Value fma(Value x, Value y, Value z) { return x.builder().node(Op::fma, {x, y, z}); }
inline Value select(Value condition, Value x, Value y) { return x.builder().node(Op::select, {condition, x, y}); }

inline Value logical_not(Value x) { return x.builder().node(Op::logical_not, {x}); }
inline Value operator-(Value x) { return x.builder().node(Op::neg, {x}); }
inline Value one_hot(Value x) { return x.builder().node(Op::one_hot, {x}); }

// A function for each row of unisono/functions.def: abs(x), …, leaky_relu(x, slope = 0.01), …
#define UNISONO_FUNCTION(NAME, ...) \
  inline Value NAME(Value x) { return x.builder().node(Op::NAME, {x}); }
#define UNISONO_FUNCTION_1(NAME, P, P_FIELD, P_DEFAULT, ...) Value NAME(Value x, NumberOrValue P = P_DEFAULT);
#define UNISONO_FUNCTION_2(NAME, P, P_FIELD, P_DEFAULT, Q, Q_FIELD, Q_DEFAULT, ...) \
  Value NAME(Value x, NumberOrValue P = P_DEFAULT, NumberOrValue Q = Q_DEFAULT);
#include "unisono/operations.def"
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
/// Uses the statistics of this batch (training). Batch normalisation with stored statistics is plain arithmetic.
Value batch_norm(Value x, NormOptions options = {});
Value softmax(Value x, ReduceDomain domain = over_n);

}  // namespace unisono
