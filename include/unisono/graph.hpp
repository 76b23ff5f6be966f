#pragma once
/// Epilogue graphs: an SSA DAG over the accumulator of one contraction.
///
/// A graph has no extents, so it fits every problem. Each value has *axes*, which say how it is broadcast, and a
/// *dtype*, which is both its type and the precision in which its node computes.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/dtype.hpp"

namespace unisono {

/// How a value varies along the rows of the implicit GEMM. `m` is a row (a pixel of an image, or a row of a
/// matrix of a batch, counted over all images); `b` is the image or batch that the row belongs to, so `m` is
/// finer than `b`.
enum class RowAxis : std::uint8_t { none, b, m };

/// How a value varies along the columns: `n` is an output channel or column; `g` is one of `Axes::groups`
/// equal runs of neighbouring columns, so `n` is finer than `g`.
enum class ColAxis : std::uint8_t { none, g, n };

/// Axes of a value, such as [m,n], [b,n], [n] or [] (a scalar).
struct Axes {
  RowAxis row = RowAxis::none;
  ColAxis col = ColAxis::none;
  int groups = 0;  ///< number of groups if col == ColAxis::g, else 0

  bool operator==(const Axes&) const = default;
};

namespace axes {
inline constexpr Axes scalar{};
inline constexpr Axes b{RowAxis::b, ColAxis::none};
inline constexpr Axes m{RowAxis::m, ColAxis::none};
inline constexpr Axes n{RowAxis::none, ColAxis::n};
inline constexpr Axes bn{RowAxis::b, ColAxis::n};
inline constexpr Axes mn{RowAxis::m, ColAxis::n};
}  // namespace axes

/// Returns the smallest axes to which both broadcast: the finer of the two along rows and along columns. Two different
/// group counts join to `n`.
Axes join(const Axes& x, const Axes& y);

/// Returns whether a value with axes `from` broadcasts to `to`.
bool broadcasts_to(const Axes& from, const Axes& to);

/// Returns "[m,n]", "[b,g32]", "[]", and so on.
std::string to_string(const Axes& a);

/// The index set that a reduction, a normalisation or a softmax runs over.
struct ReduceDomain {
  bool rows = false;       ///< runs over m
  bool cols = false;       ///< runs over n
  bool per_image = false;  ///< with rows: over the rows of each image, with one result per image
  int groups = 1;          ///< with cols: the number of equal groups of columns, with one result per group

  bool operator==(const ReduceDomain&) const = default;
};

/// Returns the axes of the result of reducing a value with axes [m,n] over `domain`.
Axes reduced_axes(const ReduceDomain& domain);

/// Coordinates and extents of the iteration space.
enum class Coordinate : std::uint8_t {
  m,  ///< row over all images
  n,  ///< column
  b,  ///< image or batch
  h,  ///< output row of the pixel (convolution), or row within the matrix (GEMM)
  w,  ///< output column of the pixel (convolution); 0 for a GEMM
};

/// The operations, in the order of the table unisono/operations.def: leaves (acc, acc1, operand, constant, index,
/// extent), arithmetic, comparisons and logic, fma, select, functions of one value, cast, one_hot, reductions,
/// normalisations, softmax, call.
enum class Op : std::uint8_t {
#define UNISONO_ELEMENTWISE(NAME, ...) NAME,
#define UNISONO_OTHER(NAME) NAME,
#include "unisono/operations.def"
};

inline constexpr int op_count = static_cast<int>(Op::call) + 1;

/// Returns the name in the text form (docs/text-form.md); "add" prints as the operator +.
std::string_view to_string(Op op);

/// The coordinates of a row along which the memory of an operand [m] or [m,n] varies. It is repeated along the others:
/// `pos[h,w]` is one plane for all images, `c[h,n]` one matrix for all products of a batch.
enum class RowCoordinates : std::uint8_t {
  all,  ///< image, and place within it
  h,    ///< image row, or row of the matrix
  w,    ///< column of the image
  hw,
};

/// Attributes of a node. Only the fields of its op are read; the others must keep their defaults, so that two sets of
/// attributes are equal if their fields are.
struct Attributes {
  double value = 0;                     ///< constant
  double alpha = 0;                     ///< leaky_relu: slope; elu: alpha; hardsigmoid: max(0, min(1, alpha·x + beta))
  double beta = 0;                      ///< hardsigmoid
  double lower = 0;                     ///< clamp
  double upper = 0;                     ///< clamp
  double eps = 0;                       ///< normalisations
  bool has_scale = false;               ///< normalisations: an input follows x
  bool has_shift = false;               ///< normalisations: an input follows x (and scale)
  ReduceDomain domain;                  ///< reductions, normalisations, softmax
  Coordinate coordinate{};              ///< index, extent
  std::string name;                     ///< operand: the name to bind; call: the function's name
  std::optional<DType> storage;         ///< operand: dtype in memory; absent: CompileOptions::storage
  std::optional<double> default_value;  ///< operand: its value when unbound (all but [m,n])
  RowCoordinates rows{};                ///< operand with rows: the coordinates along which its memory varies
  bool strided = false;                 ///< operand [m] or [m,n]: may be bound with any strides

  bool operator==(const Attributes&) const = default;
};

/// Index of a node in its graph; inputs of a node always have smaller ids.
using ValueId = std::uint32_t;

struct Node {
  Op op{};
  DType dtype = DType::f32;
  Axes axes;
  std::vector<ValueId> inputs;
  Attributes attr;
  std::string name;  ///< name in the text form, for printing only; may be empty
};

/// The form in which a store writes its value. All but `whole` need a floating-point [m,n] value of a convolution, an
/// image, and have its memory order, channels last or first. Pooling drops a trailing odd row or column.
enum class StoreForm : std::uint8_t {
  whole,
  max_pool_2x2,  ///< the largest of each 2x2 pixels, (N, P/2, Q/2, K); NaN propagates
  upsample_2x2,  ///< each pixel four times, (N, 2P, 2Q, K)
  enlarge_2x2 [[deprecated("upsample_2x2")]] = upsample_2x2,
};

/// Returns the name in the text form, such as "max_pool_2x2"; empty for `whole`.
std::string_view to_string(StoreForm form);

/// An output: the value in the given form, rounded to `dtype`. A whole value has its own axes ([m,n], [b,n], …). A
/// graph may have one pooled and one upsampled store, of the same value and dtype. That value must also be stored whole
/// in that dtype, unless the only other form is an upsampled store.
struct Store {
  ValueId value{};
  DType dtype = DType::f32;
  std::string name;
  StoreForm form = StoreForm::whole;
  bool strided = false;  ///< [m,n]: may be bound with any strides
};

/// How a store rounds a value to a type of fewer bits.
enum class RoundingMode : std::uint8_t {
  nearest,      ///< to nearest, ties to even
  toward_zero,  ///< the magnitude is never above the value's
  stochastic,   ///< up or down, with probabilities such that the expected result is exact; needs a seed
};

/// The C++ type in which a user function takes an input.
enum class ParameterType : std::uint8_t {
  float32,  ///< float
  int32,    ///< int; floating-point values are truncated
  int64,    ///< long long; floating-point values are truncated
};

/// Device memory that a user function captures. Its address is an argument of each launch (Arguments::pointers, by
/// name). Functions that capture the same name share it.
struct CapturedPointer {
  std::string name = {};
  std::string type = "const float*";  ///< in C++
};

/// A user-defined elementwise function.
struct UserFunction {
  std::string name = {};
  int arity = 1;                 ///< inputs of a call
  bool returns_value = true;     ///< false: called for its side effect only
  std::string cuda_source = {};  ///< C++ text that defines `__device__ float name(float, …)` (or void); may be empty
  /// The function on the CPU. Its arguments are the inputs, then the captured scalars. It must be safe to call from
  /// several threads.
  std::function<double(std::span<const double>)> cpu = {};
  std::vector<ParameterType> parameters = {};  ///< types of inputs and captured scalars; f32 where none is given
  std::vector<std::string> scalars = {};       ///< captured scalars: operands [], which follow the inputs of each call
  std::vector<CapturedPointer> pointers = {};  ///< captured memory; the last arguments of cuda_source's function
  /// If above 1, `__device__ void name(float, …, float* results)` writes that many values, and the text form calls it
  /// as name_0(…), name_1(…), …. Such a function must have no other effect.
  int results = 1;
  std::function<void(std::span<const double>, std::span<double>)> cpu_results = {};  ///< with results above 1: as cpu
  std::string shared_source = {};  ///< C++ text before cuda_source; functions with the same text share one copy

  /// Number of inputs of a call and captured scalars.
  int input_count() const { return arity + static_cast<int>(scalars.size()); }
  ParameterType parameter(std::size_t i) const {
    return i < parameters.size() ? parameters[i] : ParameterType::float32;
  }
};

/// An epilogue graph. Nodes stand in topological order.
struct Graph {
  std::vector<Node> nodes;
  std::vector<Store> stores;
  std::vector<ValueId> effects;  ///< calls of functions that return nothing, in order
  std::map<std::string, std::shared_ptr<const UserFunction>> functions;

  const Node& operator[](ValueId id) const { return nodes[id]; }
};

/// Returns the number of accumulators that the graph needs: 2 if it reads `acc1`, else 1.
int product_count(const Graph& graph);

/// Returns whether the nodes of the two graphs correspond one to one, with equal op, dtype, axes, attributes and
/// inputs, and with the same stores and effects in the same order. Values that nothing stores count too, in the order
/// of their ids. Ids otherwise, names of intermediate values, and duplicates of leaves do not matter. Numbers are
/// compared by their bits (0 and -0 differ), except that all NaNs are equal; functions by name.
bool structurally_equal(const Graph& x, const Graph& y);

/// Checks the rules of a graph: order, arity, axes, dtypes, attributes (ranges, and defaults if an op does not read
/// them), names of operands and stores, forms of stores, defined functions. Calls that return nothing must be effects,
/// each once, and must not be read. Throws UserError for what a caller can cause, else InternalError.
void verify(const Graph& graph);

}  // namespace unisono
