#pragma once
/// Networks: a DAG of tensors and operators, the fuser that cuts it into regions (one contraction and one epilogue
/// graph each), and the executable that runs it with planned memory.
///
///     coda::NetworkBuilder net;
///     auto x = net.input("image", {"batch", 3, 64, 64});
///     auto w = net.constant("w", {16, 3, 3, 3}, weights);
///     auto h = mish(group_norm(conv2d(x, w, {.pad = 1}), {.groups = 4}));
///     net.output(max_pool(h, {.kernel = 2, .stride = 2}), "y");
///     coda::NetworkExecutable run = coda::compile(net.build());
///
/// Shapes are written in the order of ONNX and PyTorch: (N,C,H,W) for images, (K,C/groups,R,S) for filters. Wrong use
/// throws UserError that names the operator, its node and the shapes given and expected.

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "coda/contraction.hpp"
#include "coda/executable.hpp"
#include "coda/graph.hpp"
#include "coda/tensor.hpp"

namespace coda {

/// One extent of a shape: a number, or a symbol such as "batch" that becomes a number when the network runs. What an
/// operator makes of a symbol is written as a formula, such as "height/2".
class Dim {
 public:
  Dim() = default;
  template <std::integral T>
  Dim(T extent) : value_(static_cast<std::int64_t>(extent)) {}
  Dim(std::string symbol) : symbol_(std::move(symbol)) {}
  Dim(const char* symbol) : symbol_(symbol) {}

  bool known() const { return symbol_.empty(); }
  std::int64_t value() const { return value_; }  ///< if known
  const std::string& symbol() const { return symbol_; }
  bool operator==(const Dim&) const = default;

 private:
  std::int64_t value_ = 1;
  std::string symbol_;
};

using Shape = std::vector<Dim>;
std::string to_string(const Dim& dim);
std::string to_string(const Shape& shape);  ///< "(batch,3,64,64)"

/// A number for rows and one for columns; a single number serves both.
struct Pair {
  std::int64_t h = 1, w = 1;
  constexpr Pair(std::int64_t both) : h(both), w(both) {}
  constexpr Pair(std::int64_t rows, std::int64_t columns) : h(rows), w(columns) {}
  bool operator==(const Pair&) const = default;
};

/// Margins around an image; a single number serves all sides.
struct Margins {
  std::int64_t top = 0, left = 0, bottom = 0, right = 0;
  constexpr Margins(std::int64_t all) : Margins(all, all, all, all) {}
  constexpr Margins(std::int64_t t, std::int64_t l, std::int64_t b, std::int64_t r)
      : top(t), left(l), bottom(b), right(r) {}
  bool operator==(const Margins&) const = default;
};

enum class ResizeMode : std::uint8_t { nearest, linear };

/// Where output pixel i lies in the input, with scale = output/input extent (ONNX Resize).
enum class ResizeCoordinates : std::uint8_t {
  half_pixel,          ///< (i + 0.5)/scale − 0.5
  pytorch_half_pixel,  ///< the same, but 0 if the output has one pixel
  asymmetric,          ///< i/scale
  align_corners,       ///< i·(input − 1)/(output − 1); 0 if the output has one pixel
};

/// How nearest rounds a coordinate.
enum class NearestRounding : std::uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };

/// The operators. Inputs are listed in the order that they take; [x] may be left out. All have one output.
namespace operators {

/// x (N,C,H,W), w (K,C/groups,R,S)[, bias (K)] → (N,K,P,Q); see coda::Conv2d.
struct Conv2d {
  Pair stride = 1;
  Margins pad = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
  bool operator==(const Conv2d&) const = default;
};

/// x (N,C,H,W), w (C,K/groups,R,S)[, bias (K)] → (N,K,P,Q); see coda::ConvTranspose2d.
struct ConvTranspose2d {
  Pair stride = 1;
  Margins pad = 0;
  Pair output_pad = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
  bool operator==(const ConvTranspose2d&) const = default;
};

/// a (M,K) or (B,M,K), b (K,N)[, bias (N)] → (M,N) or (B,M,N). Only a of rank 2 may be transposed.
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  bool operator==(const Gemm&) const = default;
};

/// An elementwise Op of one to three inputs, which broadcast against each other as in NumPy.
struct Elementwise {
  Op op = Op::add;
  Attributes attr = {};
  bool operator==(const Elementwise&) const = default;
};

/// x[, scale][, shift]: group_norm, instance_norm (per image, x of rank 4), layer_norm or rms_norm (over the channels
/// of each pixel, or over the last extent if x is not of rank 4). Scale and shift are (C).
struct Normalisation {
  Op op = Op::group_norm;
  int groups = 1;
  double eps = 1e-5;
  bool has_scale = false, has_shift = false;
  bool operator==(const Normalisation&) const = default;
};

/// x, scale, shift, mean, variance (each (C)): (x − mean)/sqrt(variance + eps)·scale + shift, with stored statistics.
struct BatchNorm {
  double eps = 1e-5;
  bool operator==(const BatchNorm&) const = default;
};

/// Over the channels of each pixel if x is of rank 4, else over the last extent.
struct Softmax {
  bool operator==(const Softmax&) const = default;
};

/// x (N,C,H,W). Pixels outside the image do not take part, unless count_pad counts them as zeros of an average (never
/// those that only ceil_mode adds). With ceil_mode the last window may hang over, if it starts inside image or left
/// pad.
struct Pool2d {
  bool average = false;
  Pair kernel = 1;
  Pair stride = 1;
  Margins pad = 0;
  Pair dilation = 1;
  bool ceil_mode = false;
  bool count_pad = false;
  bool operator==(const Pool2d&) const = default;
};

/// x (N,C,H,W) → (N,C,1,1)
struct GlobalAveragePool {
  bool operator==(const GlobalAveragePool&) const = default;
};

/// x (N,C,H,W) → (N,C,floor(H·scale_h),floor(W·scale_w)), or the given size if it is not 0.
struct Resize {
  ResizeMode mode = ResizeMode::nearest;
  double scale_h = 1, scale_w = 1;
  std::int64_t height = 0, width = 0;
  ResizeCoordinates coordinates = ResizeCoordinates::half_pixel;
  NearestRounding rounding = NearestRounding::round_prefer_floor;
  bool operator==(const Resize&) const = default;
};

/// Any number of inputs that agree in all extents but `axis`.
struct Concat {
  int axis = 1;
  bool operator==(const Concat&) const = default;
};

/// Adds (or, if negative, crops) before and after each axis.
struct Pad {
  std::vector<std::int64_t> before, after;
  double value = 0;
  bool operator==(const Pad&) const = default;
};

/// In the order of the logical shape: 0 keeps the input's extent at that place, one −1 takes what is left.
struct Reshape {
  std::vector<std::int64_t> shape;
  bool operator==(const Reshape&) const = default;
};

/// → (product of the extents before axis, product of the others)
struct Flatten {
  int axis = 1;
  bool operator==(const Flatten&) const = default;
};

/// Output axis i is input axis order[i].
struct Transpose {
  std::vector<int> order;
  bool operator==(const Transpose&) const = default;
};

/// x, like → x broadcast to the common shape of the two (NumPy's rules). The fuser adds these where an operand does not
/// fit the axes of an epilogue.
struct Expand {
  bool operator==(const Expand&) const = default;
};

struct Identity {
  bool operator==(const Identity&) const = default;
};

}  // namespace operators

using OperatorKind =
    std::variant<operators::Conv2d, operators::ConvTranspose2d, operators::Gemm, operators::Elementwise,
                 operators::Normalisation, operators::BatchNorm, operators::Softmax, operators::Pool2d,
                 operators::GlobalAveragePool, operators::Resize, operators::Concat, operators::Pad, operators::Reshape,
                 operators::Flatten, operators::Transpose, operators::Expand, operators::Identity>;

/// "conv2d", "max_pool", "mish", …
std::string to_string(const OperatorKind& kind);

/// Index of a tensor in its network.
using TensorId = std::uint32_t;

struct NetworkTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  /// Row-major elements of a constant; null for what is computed or given. Shared, never written.
  std::shared_ptr<const std::vector<float>> constant;
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

/// Throws UserError unless the network is well formed: order, sources, names of inputs and outputs, inferred shapes.
void verify(const Network& network);

/// One line an operator: output, shape, operator, inputs.
std::string to_string(const Network& network);

// ---- Builder ----

class NetworkBuilder;

/// A tensor of a network under construction: a handle, cheap to copy, valid as long as its builder lives.
class NetworkValue {
 public:
  NetworkValue(NetworkBuilder& builder, TensorId id) : builder_(&builder), id_(id) {}
  TensorId id() const { return id_; }
  NetworkBuilder& builder() const { return *builder_; }
  const Shape& shape() const;
  /// Names the tensor and the operator that makes it.
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

  /// A float32 tensor that the caller gives at each run.
  NetworkValue input(const std::string& name, Shape shape);
  /// A constant; `elements` are row-major and as many as the shape says.
  NetworkValue constant(const std::string& name, Shape shape, std::vector<float> elements);
  NetworkValue constant(double scalar);
  /// Appends an operator after inferring its shape; the way in for generic code such as the ONNX importer. An empty
  /// name becomes the operator's with a number.
  NetworkValue apply(OperatorKind kind, const std::vector<NetworkValue>& inputs, std::string name = {});
  /// Names a tensor, but not the operator that makes it.
  void name_tensor(NetworkValue value, std::string name);
  /// Makes the value an output. An empty name becomes the tensor's. A value that is an input, a constant or already an
  /// output passes through an identity.
  void output(NetworkValue value, std::string name = {});
  /// The network, verified. At least one output is needed.
  Network build() const;

 private:
  friend class NetworkValue;
  Network network_;
};

struct Conv2dOptions {
  Pair stride = 1;
  Margins pad = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
  std::optional<NetworkValue> bias = {};
};
struct ConvTranspose2dOptions {
  Pair stride = 1;
  Margins pad = 0;
  Pair output_pad = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
  std::optional<NetworkValue> bias = {};
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

NetworkValue conv2d(NetworkValue x, NetworkValue w, Conv2dOptions options = {});
NetworkValue conv_transpose2d(NetworkValue x, NetworkValue w, ConvTranspose2dOptions options = {});
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
/// Nearest neighbour, output pixel i takes input pixel floor(i/scale).
NetworkValue upsample(NetworkValue x, double scale = 2);
NetworkValue concat(const std::vector<NetworkValue>& inputs, int axis = 1);
NetworkValue pad(NetworkValue x, std::vector<std::int64_t> before, std::vector<std::int64_t> after, double value = 0);
NetworkValue reshape(NetworkValue x, std::vector<std::int64_t> shape);
NetworkValue flatten(NetworkValue x, int axis = 1);
NetworkValue transpose(NetworkValue x, std::vector<int> order);
NetworkValue identity(NetworkValue x);
NetworkValue elementwise(Op op, const std::vector<NetworkValue>& inputs, Attributes attr = {});

#define CODA_NETWORK_BINARY(NAME, OP)                                                              \
  inline NetworkValue NAME(NetworkValue x, NetworkValue y) { return elementwise(Op::OP, {x, y}); } \
  template <class T>                                                                               \
  requires std::integral<T> || std::floating_point<T> NetworkValue NAME(NetworkValue x, T y) {     \
    return elementwise(Op::OP, {x, x.builder().constant(static_cast<double>(y))});                 \
  }                                                                                                \
  template <class T>                                                                               \
  requires std::integral<T> || std::floating_point<T> NetworkValue NAME(T x, NetworkValue y) {     \
    return elementwise(Op::OP, {y.builder().constant(static_cast<double>(x)), y});                 \
  }
CODA_NETWORK_BINARY(operator+, add)
CODA_NETWORK_BINARY(operator-, sub)
CODA_NETWORK_BINARY(operator*, mul)
CODA_NETWORK_BINARY(operator/, div)
CODA_NETWORK_BINARY(min, min)
CODA_NETWORK_BINARY(max, max)
CODA_NETWORK_BINARY(pow, pow)
#undef CODA_NETWORK_BINARY
#define CODA_NETWORK_UNARY(NAME) \
  inline NetworkValue NAME(NetworkValue x) { return elementwise(Op::NAME, {x}); }
CODA_NETWORK_UNARY(abs)
CODA_NETWORK_UNARY(sqrt)
CODA_NETWORK_UNARY(rsqrt)
CODA_NETWORK_UNARY(reciprocal)
CODA_NETWORK_UNARY(square)
CODA_NETWORK_UNARY(exp)
CODA_NETWORK_UNARY(log)
CODA_NETWORK_UNARY(log1p)
CODA_NETWORK_UNARY(tanh)
CODA_NETWORK_UNARY(erf)
CODA_NETWORK_UNARY(sin)
CODA_NETWORK_UNARY(cos)
CODA_NETWORK_UNARY(sigmoid)
CODA_NETWORK_UNARY(relu)
CODA_NETWORK_UNARY(relu6)
CODA_NETWORK_UNARY(silu)
CODA_NETWORK_UNARY(mish)
CODA_NETWORK_UNARY(gelu)
CODA_NETWORK_UNARY(gelu_tanh)
CODA_NETWORK_UNARY(hardswish)
CODA_NETWORK_UNARY(softplus)
CODA_NETWORK_UNARY(logsigmoid)
#undef CODA_NETWORK_UNARY
inline NetworkValue operator-(NetworkValue x) { return elementwise(Op::neg, {x}); }
NetworkValue leaky_relu(NetworkValue x, double slope = 0.01);
NetworkValue elu(NetworkValue x, double alpha = 1.0);
NetworkValue hardsigmoid(NetworkValue x, double alpha = 1.0 / 6, double beta = 0.5);
NetworkValue clamp(NetworkValue x, double lower, double upper);

// ---- Fusion ----

/// One step of the executor as the fuser cut it.
struct RegionReport {
  enum class Kind : std::uint8_t {
    contraction,  ///< a contraction with an epilogue graph: one kernel
    epilogue,     ///< an epilogue graph over a tensor: one kernel
    single,       ///< one operator by itself, such as a pooling
    free,         ///< an operator that costs nothing: a view, or a concatenation that its producers write into
  };
  Kind kind = Kind::single;
  std::string name;                    ///< of the tensor that it makes
  std::string contraction;             ///< "conv2d (batch,3,64,64) -> 16, 3x3, pad 1"; empty if there is none
  std::vector<std::string> operators;  ///< what was fused, in order
  std::string epilogue;                ///< text form (coda::print); empty for single and free
  std::vector<std::string> outputs;    ///< tensors written
  std::string note;                    ///< why the region ends here, or why the operator stands alone
};

struct FusionReport {
  std::vector<RegionReport> regions;  ///< in the order in which they run
  int operators = 0;                  ///< operators of the network
  int kernels = 0;                    ///< regions that are not free
};

/// For people to read.
std::string to_string(const FusionReport& report);

// ---- Executable ----

struct NetworkOptions {
  Device device = Device::cpu;
  int threads = 0;               ///< CPU threads; 0: one a core
  Layout layout = Layout::nchw;  ///< memory order of inputs and outputs of rank 4 (shapes of views follow it)
  bool fuse = true;              ///< false: every operator is a region of its own (for comparison)
  bool reuse_memory = true;      ///< false: every tensor has memory of its own, nothing runs in place
  std::size_t cached_plans = 4;  ///< input shapes kept ready; at least 1
};

/// What the memory planner did for one set of input shapes. Bytes.
struct MemoryReport {
  std::size_t arena = 0;          ///< peak: the one allocation that holds all intermediates
  std::size_t without_reuse = 0;  ///< the sum of all intermediates
  std::size_t constants = 0;      ///< weights and other constants
  int in_place = 0;               ///< steps that overwrite an input that is no longer needed
  int free_concats = 0;           ///< inputs of concatenations that are written where they belong
};

/// Time of one step of a run.
struct StepTime {
  std::string name;  ///< RegionReport::name, or "input …", "output …" for changes of layout
  std::string what;  ///< contraction or operator
  double milliseconds = 0;
};

class NetworkImpl;

/// A compiled network. Runs from several threads at once; each set of input shapes is planned at its first run.
class NetworkExecutable {
 public:
  explicit NetworkExecutable(std::shared_ptr<NetworkImpl> impl) : impl_(std::move(impl)) {}

  /// Runs to completion. `inputs` and `outputs` are bound by name; the output shapes must be those of output_shapes().
  /// If `profile` is given it receives one entry a step. Throws UserError for a missing or unknown name, a shape that
  /// does not fit, or another dtype than float32.
  void run(const std::map<std::string, ConstTensorView>& inputs, const std::map<std::string, TensorView>& outputs,
           std::vector<StepTime>* profile = nullptr) const;

  /// Shapes of the outputs for inputs of these shapes (both in the order of NetworkOptions::layout).
  std::map<std::string, std::vector<std::int64_t>> output_shapes(
      const std::map<std::string, std::vector<std::int64_t>>& inputs) const;

  /// Plans for these input shapes, if that was not done, and says what memory they take.
  MemoryReport memory(const std::map<std::string, std::vector<std::int64_t>>& inputs) const;

  const Network& network() const;
  const FusionReport& report() const;

 private:
  std::shared_ptr<NetworkImpl> impl_;
};

/// Fuses a network and makes it ready to run. Throws UserError for a network that is not well formed and Unsupported
/// (with reasons) for what the device cannot run.
NetworkExecutable compile(Network network, const NetworkOptions& options = {});

/// What compile would fuse, without compiling anything.
FusionReport explain(const Network& network, const NetworkOptions& options = {});

}  // namespace coda
