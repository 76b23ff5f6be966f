#pragma once
/// Epilogue graphs: an SSA DAG over the accumulator of one contraction.
///
/// A graph knows no extents: the same graph serves every problem. Each value has *axes*, which say how it
/// is broadcast, and a *dtype*, which is both its type and the precision in which its node computes.

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

/// Smallest axes that both broadcast to: the finer of the two along rows and along columns. Two different
/// group counts join to `n`.
Axes join(const Axes& x, const Axes& y);

/// True if a value with axes `from` broadcasts to `to` without losing anything.
bool broadcasts_to(const Axes& from, const Axes& to);

/// "[m,n]", "[b,g32]", "[]".
std::string to_string(const Axes& a);

/// The index set that a reduction, a normalisation or a softmax runs over.
struct ReduceDomain {
  bool rows = false;       ///< runs over m
  bool cols = false;       ///< runs over n
  bool per_image = false;  ///< with rows: over the rows of one image only, one result an image
  int groups = 1;          ///< with cols: the columns fall into this many equal groups, one result a group

  bool operator==(const ReduceDomain&) const = default;
};

/// Axes of the result of reducing a value with axes [m,n] over `domain`.
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

/// Name in the text form ("add" prints as the operator +). See also docs/text-form.md.
std::string_view to_string(Op op);

/// Which coordinates of a row the memory of an operand [m] or [m,n] has. It is repeated along the others: `pos[h,w]` is
/// one plane for all images, `c[h,n]` of a batch of products one matrix for all of them.
enum class RowCoordinates : std::uint8_t {
  all,  ///< image, and place within it
  h,    ///< image row, or row of the matrix
  w,    ///< column of the image
  hw,
};

/// What a node needs beyond its inputs. Only the fields that its op names are read; the rest keep their defaults, so
/// that equality of two attribute sets is equality of the fields.
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
  std::string name;                     ///< operand, call: the name that the caller binds or registered
  std::optional<DType> storage;         ///< operand: dtype in memory, if declared; else as bound
  std::optional<double> default_value;  ///< operand: its value when unbound (all but [m,n])
  RowCoordinates rows{};                ///< operand with rows: those that its memory has
  bool strided = false;                 ///< operand [m] or [m,n]: it lies as its strides say, which a kernel reads

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
  std::string name;  ///< name in the text form; may be empty. No part of the meaning.
};

/// What a store writes of its value. The forms beside `whole` are of [m,n] values, as floating-point numbers, and lie
/// in memory as the whole would, channels last or first. Those that are pooled or upsampled are of a convolution, whose
/// values are images; odd extents lose their last row or column when they are pooled.
enum class StoreForm : std::uint8_t {
  whole,
  max_pool_2x2,  ///< the largest of each 2x2 pixels, (N, P/2, Q/2, K); NaN propagates
  upsample_2x2,  ///< each pixel four times, (N, 2P, 2Q, K)
  enlarge_2x2 [[deprecated("upsample_2x2")]] = upsample_2x2,
};

/// Name in the text form ("max_pool_2x2"); empty for whole.
std::string_view to_string(StoreForm form);

/// An output: what its form makes of the value, rounded to `dtype`. A whole value has its own axes ([m,n], [b,n], …).
/// A graph may have one pooled and one upsampled store, of one value and one dtype. That value is stored whole too, in
/// that dtype; an upsampled store may do without if there is neither a pooled one nor a whole one of another dtype.
struct Store {
  ValueId value{};
  DType dtype = DType::f32;
  std::string name;
  StoreForm form = StoreForm::whole;
  bool strided = false;  ///< [m,n]: it lies as its strides say, which a kernel reads
};

/// How a store rounds a value to a type of fewer bits.
enum class RoundingMode : std::uint8_t {
  nearest,      ///< to nearest, ties to even
  toward_zero,  ///< the magnitude is never above the value's
  stochastic,   ///< up or down with the probabilities that make the mean exact; needs a seed
};

/// How a user function takes an input.
enum class ParameterType : std::uint8_t {
  float32,  ///< float
  int32,    ///< int; floating-point values are truncated
  int64,    ///< long long; the same
};

/// Device memory that a user function has captured. Its address is an argument of each launch: Arguments::pointers has
/// it by name, and functions that capture one name share it.
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
  /// Must be safe to call from several threads. Its arguments are the inputs, then the captured scalars; memory it
  /// captures by itself.
  std::function<double(std::span<const double>)> cpu = {};
  std::vector<ParameterType> parameters = {};  ///< types of inputs and captured scalars; f32 where none is given
  std::vector<std::string> scalars = {};       ///< captured scalars: operands [], which follow the inputs of each call
  std::vector<CapturedPointer> pointers = {};  ///< captured memory; the last arguments of cuda_source's function
  /// Above 1: `__device__ void name(float, …, float* results)` writes so many, and the text form calls it as name_0(…),
  /// name_1(…), …, each a value. Such a function has no effect beside its results.
  int results = 1;
  std::function<void(std::span<const double>, std::span<double>)> cpu_results = {};  ///< with results above 1: as cpu
  std::string shared_source = {};  ///< C++ text ahead of cuda_source, once for all functions that have the same

  /// Inputs of a call and captured scalars together.
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

/// How many accumulators the graph is made for: 2 if it reads that of a second product, `acc1`, else 1.
int product_count(const Graph& graph);

/// True if the nodes of one graph can be paired one to one with those of the other so that op, dtype, axes, attributes
/// and inputs agree, and the same stores and effects follow in the same order. Values that nothing stores count too, in
/// the order of their numbers. What does not count: the numbering of nodes otherwise, names of intermediate values, and
/// how often a leaf stands. Numbers are compared by their bits (0 and -0 differ), except that all NaNs are one;
/// functions by name.
bool structurally_equal(const Graph& x, const Graph& y);

/// Throws InternalError, or UserError for what a caller can cause, if `graph` breaks a rule: order, arity, axes,
/// dtypes, attributes (ranges, and defaults where an op does not read them), names of operands and stores, forms of
/// stores, defined functions; calls that return nothing are effects, each once, and no value reads them.
void verify(const Graph& graph);

}  // namespace unisono
