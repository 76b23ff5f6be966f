/// Names, checks and listing of networks.

#include "unisono/network.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "network/dim.hpp"
#include "network/names.hpp"
#include "unisono/error.hpp"

namespace unisono {

namespace {

constexpr const char* map_names[] = {
#define UNISONO_MAP(NAME, ...) #NAME,
#define UNISONO_MAP_OTHER(NAME, ...) #NAME,
#include "unisono/network/maps.def"
};
constexpr const char* reduce_names[] = {"sum", "mean", "max",        "min",     "prod",
                                        "l1",  "l2",   "sum_square", "log_sum", "log_sum_exp"};
constexpr const char* resize_names[] = {"resize nearest", "resize linear", "resize cubic"};

struct NameOf {
  std::string operator()(const operators::Conv2d&) const { return "conv2d"; }
  std::string operator()(const operators::UpsampledConv2d&) const { return "conv2d"; }
  std::string operator()(const operators::StackedConv3d&) const { return "conv3d"; }
  std::string operator()(const operators::ConvTranspose2d&) const { return "conv_transpose2d"; }
  std::string operator()(const operators::FilterGradient&) const { return "filter_gradient"; }
  std::string operator()(const operators::Gemm&) const { return "gemm"; }
  std::string operator()(const operators::Elementwise& e) const { return std::string(to_string(e.op)); }
  std::string operator()(const operators::Normalisation& n) const { return std::string(to_string(n.op)); }
  std::string operator()(const operators::BatchNorm&) const { return "batch_norm"; }
  std::string operator()(const operators::Softmax&) const { return "softmax"; }
  std::string operator()(const operators::Pool2d& p) const { return p.average ? "average_pool" : "max_pool"; }
  std::string operator()(const operators::GlobalAveragePool&) const { return "global_average_pool"; }
  std::string operator()(const operators::Resize& r) const { return resize_names[static_cast<std::size_t>(r.mode)]; }
  std::string operator()(const operators::Concat&) const { return "concat"; }
  std::string operator()(const operators::Pad&) const { return "pad"; }
  std::string operator()(const operators::Reshape&) const { return "reshape"; }
  std::string operator()(const operators::PixelReshape&) const { return "reshape"; }
  std::string operator()(const operators::Flatten&) const { return "flatten"; }
  std::string operator()(const operators::Transpose&) const { return "transpose"; }
  std::string operator()(const operators::Expand&) const { return "expand"; }
  std::string operator()(const operators::Identity&) const { return "identity"; }
  std::string operator()(const operators::Map& m) const { return map_names[static_cast<std::size_t>(m.op)]; }
  std::string operator()(const operators::Reduce& r) const {
    return std::string("reduce_") + reduce_names[static_cast<std::size_t>(r.op)];
  }
  std::string operator()(const operators::ArgReduce& a) const { return a.smallest ? "arg_min" : "arg_max"; }
  std::string operator()(const operators::Slice&) const { return "slice"; }
  std::string operator()(const operators::Gather&) const { return "gather"; }
  std::string operator()(const operators::Tile&) const { return "tile"; }
  std::string operator()(const operators::DepthToSpace& d) const {
    return d.inverse ? "space_to_depth" : "depth_to_space";
  }
  std::string operator()(const operators::ReshapeLike&) const { return "reshape_like"; }
  std::string operator()(const operators::ShapeOf&) const { return "shape"; }
  std::string operator()(const operators::MatMul&) const { return "matmul"; }
  std::string operator()(const operators::Attention&) const { return "attention"; }
  std::string operator()(const operators::NormGradient&) const { return "norm_gradient"; }
  std::string operator()(const operators::Conv3d& c) const { return c.transposed ? "conv_transpose3d" : "conv3d"; }
  std::string operator()(const operators::PoolNd& p) const {
    return p.indices ? "max_pool_indices" : p.average ? "average_pool" : "max_pool";
  }
  std::string operator()(const operators::Resample& r) const { return resize_names[static_cast<std::size_t>(r.mode)]; }
  std::string operator()(const operators::GatherElements&) const { return "gather_elements"; }
  std::string operator()(const operators::GatherND&) const { return "gather_nd"; }
  std::string operator()(const operators::ScatterElements&) const { return "scatter_elements"; }
  std::string operator()(const operators::ScatterND&) const { return "scatter_nd"; }
  std::string operator()(const operators::Range&) const { return "range"; }
  std::string operator()(const operators::Triangle& t) const { return t.upper ? "upper_triangle" : "lower_triangle"; }
  std::string operator()(const operators::CumulativeSum&) const { return "cumulative_sum"; }
  std::string operator()(const operators::TopK&) const { return "top_k"; }
  std::string operator()(const operators::GridSample&) const { return "grid_sample"; }
  std::string operator()(const operators::Recurrence& r) const {
    return r.cell == RecurrentCell::rnn ? "rnn" : r.cell == RecurrentCell::gru ? "gru" : "lstm";
  }
};

void verify_constant(const NetworkTensor& t) {
  for (const Dim& d : t.shape)
    if (!d.known())
      throw UserError(fmt::format("constant '{}' has shape {}; expected numbers", t.name, to_string(t.shape)));
  if ((t.constant != nullptr) != (t.dtype == DType::f32))
    throw UserError(fmt::format("constant '{}' of {} has its elements as another type", t.name, to_string(t.dtype)));
  const Dim n = network::product(t.shape);
  const std::size_t given = t.elements().size() / size_of(t.dtype);
  if (static_cast<std::int64_t>(given) != n.value())
    throw UserError(
        fmt::format("constant '{}' has {} elements; shape {} takes {}", t.name, given, to_string(t.shape), n.value()));
}

void verify_interface(const Network& n, const std::vector<TensorId>& ids, std::string_view what) {
  std::set<std::string> names;
  for (const TensorId id : ids) {
    if (id >= n.tensors.size()) throw UserError(fmt::format("{} {} is not a tensor of the network", what, id));
    if (n[id].name.empty()) throw UserError(fmt::format("an {} of the network has no name", what));
    if (!names.insert(n[id].name).second)
      throw UserError(fmt::format("two {}s are named '{}'; names of {}s must differ", what, n[id].name, what));
  }
}

}  // namespace

std::string to_string(const OperatorKind& kind) { return std::visit(NameOf{}, kind); }

namespace network {
std::string where(const Operator& op) { return fmt::format("{} '{}'", to_string(op.kind), op.name); }

void check_is_users(const Operator& op) {
  if (std::holds_alternative<operators::UpsampledConv2d>(op.kind))
    throw UserError(where(op) + ": UpsampledConv2d is made while a network is compiled; write Resize and Conv2d");
  if (std::holds_alternative<operators::StackedConv3d>(op.kind))
    throw UserError(where(op) + ": StackedConv3d is made while a network is compiled; write Conv3d");
  if (std::holds_alternative<operators::PixelReshape>(op.kind))
    throw UserError(where(op) + ": PixelReshape is made while a network is compiled; write Transpose and Reshape");
  if (std::holds_alternative<operators::Attention>(op.kind))
    throw UserError(where(op) + ": Attention is made while a network is compiled; write MatMul and Softmax");
  if (std::holds_alternative<operators::NormGradient>(op.kind))
    throw UserError(where(op) + ": NormGradient is made while a network is compiled; see gradients()");
}
}  // namespace network

void verify(const Network& n) {
  std::vector<bool> known(n.tensors.size(), false);
  verify_interface(n, n.inputs, "input");
  verify_interface(n, n.outputs, "output");
  for (TensorId id = 0; id < n.tensors.size(); ++id) {
    if (n[id].dtype == DType::tf32 || n[id].dtype == DType::f8e4m3 || n[id].dtype == DType::f8e5m2)
      throw UserError(
          fmt::format("tensor '{}' has dtype {}, which no network has", n[id].name, to_string(n[id].dtype)));
    if (n[id].is_constant()) verify_constant(n[id]);
    if (n[id].is_constant()) known[id] = true;
  }
  for (const TensorId id : n.inputs) {
    if (n[id].is_constant()) throw UserError(fmt::format("input '{}' is a constant", n[id].name));
    known[id] = true;
  }
  for (const Operator& op : n.operators) {
    network::check_is_users(op);
    std::vector<const NetworkTensor*> inputs;
    for (const TensorId id : op.inputs) {
      if (id >= n.tensors.size() || !known[id])
        throw UserError(fmt::format("{} reads a tensor that nothing before it makes", network::where(op)));
      inputs.push_back(&n[id]);
    }
    if (op.output >= n.tensors.size() || known[op.output])
      throw UserError(fmt::format("{} writes a tensor that has another source", network::where(op)));
    const Shape shape = infer_shape(op.kind, inputs, network::where(op));
    if (shape != n[op.output].shape)
      throw UserError(fmt::format("{} makes shape {}; its output '{}' is declared {}", network::where(op),
                                  to_string(shape), n[op.output].name, to_string(n[op.output].shape)));
    if (infer_dtype(op.kind, inputs, network::where(op)) != n[op.output].dtype)
      throw UserError(fmt::format("{}: its output '{}' is declared {}", network::where(op), n[op.output].name,
                                  to_string(n[op.output].dtype)));
    known[op.output] = true;
  }
  if (n.outputs.empty()) throw UserError(fmt::format("network '{}' has no output", n.name));
  for (const TensorId id : n.outputs)
    if (!known[id]) throw UserError(fmt::format("output '{}' has no source", n[id].name));
}

std::string to_string(const Network& n) {
  std::string text = fmt::format("network {}\n", n.name);
  for (const TensorId id : n.inputs) text += fmt::format("  input {} {}\n", n[id].name, to_string(n[id].shape));
  for (const Operator& op : n.operators) {
    std::vector<std::string> inputs;
    for (const TensorId id : op.inputs)
      inputs.push_back(n[id].is_constant() ? n[id].name + to_string(n[id].shape) : n[id].name);
    text += fmt::format("  {} {} = {}({})\n", n[op.output].name, to_string(n[op.output].shape), to_string(op.kind),
                        fmt::join(inputs, ", "));
  }
  for (const TensorId id : n.outputs) text += fmt::format("  output {}\n", n[id].name);
  return text;
}

}  // namespace unisono
