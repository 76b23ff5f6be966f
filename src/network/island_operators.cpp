/// Operators of islands in forms whose kernels read and write f32.

#include <fmt/format.h>

#include "network/constant_operator.hpp"
#include "network/islands.hpp"
#include "network/space.hpp"

namespace unisono::network {

namespace {

// What takes the place of one operator
class FormWriter {
 public:
  FormWriter(Network& network, std::vector<bool>& kept, const Operator& op) : n_(network), kept_(kept), op_(op) {}

  std::vector<Operator> take() { return std::move(all_); }
  void gemm(const operators::Gemm& g);
  void convolution(const ConvAttributes& c, bool transposed);
  void softmax();
  void normalisation(const operators::Normalisation& n);
  void resize(const operators::Resize& r);
  void single(OperatorKind kind) { finish(std::move(kind), op_.inputs); }

 private:
  const Shape& shape(TensorId id) const { return n_[id].shape; }
  // The channels of an image, else the last axis
  int columns_axis() const { return static_cast<int>(column_axis(shape(op_.output).size())); }
  TensorId add(NetworkTensor tensor, bool is_kept) {
    n_.tensors.push_back(std::move(tensor));
    kept_.push_back(is_kept);
    return static_cast<TensorId>(n_.tensors.size() - 1);
  }
  TensorId number(double x) {
    return add({"number", DType::f32, {}, std::make_shared<const std::vector<float>>(1, static_cast<float>(x))}, false);
  }
  TensorId emit(OperatorKind kind, const std::vector<TensorId>& inputs, std::string_view part);
  TensorId move(OperatorKind kind, TensorId x, std::string_view part);
  TensorId map(MapOp op, TensorId x, TensorId y, std::string_view part) {
    return emit(operators::Map{.op = op}, {x, y}, part);
  }
  TensorId reduced(ReduceOp op, TensorId x, const std::vector<int>& axes, std::string_view part) {
    return emit(operators::Reduce{.op = op, .axes = axes, .keep = true}, {x}, part);
  }
  void finish(OperatorKind kind, std::vector<TensorId> inputs) {
    all_.push_back({std::move(kind), op_.name, std::move(inputs), op_.output});
  }
  TensorId normalised(TensorId x, const std::vector<int>& axes, bool centred, double eps);
  TensorId per_channel(TensorId id);

  Network& n_;
  std::vector<bool>& kept_;
  const Operator op_;
  std::vector<Operator> all_;
};

TensorId FormWriter::emit(OperatorKind kind, const std::vector<TensorId>& inputs, std::string_view part) {
  std::vector<const NetworkTensor*> types;
  for (const TensorId id : inputs) types.push_back(&n_[id]);
  const std::string name = fmt::format("{}_{}", n_[op_.output].name, part);
  NetworkTensor result = result_type(kind, types, name);
  const TensorId id = add(std::move(result), true);
  all_.push_back({std::move(kind), name, inputs, id});
  return id;
}

// Elements as they are: a constant's now
TensorId FormWriter::move(OperatorKind kind, TensorId x, std::string_view part) {
  if (n_[x].is_constant()) return add(computed(kind, {&n_[x]}, fmt::format("{}_{}", n_[op_.output].name, part)), false);
  const bool is_kept = kept_[x];
  const TensorId id = emit(std::move(kind), {x}, part);
  kept_[id] = is_kept;
  return id;
}

void FormWriter::gemm(const operators::Gemm& g) {
  const operators::Transpose turned{.order = {1, 0}};
  const TensorId a = g.transpose_a ? move(turned, op_.inputs[0], "left") : op_.inputs[0];
  const TensorId b = g.transpose_b ? move(turned, op_.inputs[1], "right") : op_.inputs[1];
  if (op_.inputs.size() < 3) return finish(operators::MatMul{}, {a, b});
  finish(operators::Elementwise{.op = Op::add}, {emit(operators::MatMul{}, {a, b}, "product"), op_.inputs[2]});
}

// (N,C,H,W) as a volume of one plane
void FormWriter::convolution(const ConvAttributes& c, bool transposed) {
  const operators::Reshape volume{.shape = {0, 0, 1, -4, -5}}, image{.shape = {0, 0, -5, -6}};
  std::vector<TensorId> inputs{move(volume, op_.inputs[0], "volume"), move(volume, op_.inputs[1], "filter")};
  if (op_.inputs.size() == 3) inputs.push_back(op_.inputs[2]);
  operators::Conv3d conv{.stride = {1, c.stride.h, c.stride.w},
                         .dilation = {1, c.dilation.h, c.dilation.w},
                         .before = {0, c.pad.top, c.pad.left},
                         .after = {0, c.pad.bottom, c.pad.right},
                         .output_pad = {0, c.output_pad.h, c.output_pad.w},
                         .groups = c.groups,
                         .transposed = transposed};
  finish(image, {emit(std::move(conv), inputs, "of_volume")});
}

void FormWriter::softmax() {
  const std::vector<int> axes{columns_axis()};
  const TensorId x = op_.inputs[0], largest = reduced(ReduceOp::max, x, axes, "largest");
  const TensorId e = emit(operators::Map{.op = MapOp::exp}, {map(MapOp::sub, x, largest, "below")}, "exp");
  finish(operators::Map{.op = MapOp::div}, {e, reduced(ReduceOp::sum, e, axes, "sum")});
}

// (x - mean) / sqrt(variance + eps), or x / sqrt(mean square + eps)
TensorId FormWriter::normalised(TensorId x, const std::vector<int>& axes, bool centred, double eps) {
  if (centred) x = map(MapOp::sub, x, reduced(ReduceOp::mean, x, axes, "mean"), "centred");
  const TensorId squares = reduced(ReduceOp::mean, map(MapOp::mul, x, x, "squares"), axes, "variance");
  const TensorId deviation =
      emit(operators::Map{.op = MapOp::sqrt}, {map(MapOp::add, squares, number(eps), "with_eps")}, "deviation");
  return map(MapOp::div, x, deviation, "normalised");
}

// (C) as it broadcasts over the result
TensorId FormWriter::per_channel(TensorId id) {
  return shape(op_.output).size() == 4 ? move(operators::Reshape{.shape = {-1, 1, 1}}, id, "channels") : id;
}

// Over an image in groups: (N, groups, the rest)
void FormWriter::normalisation(const operators::Normalisation& n) {
  const bool by_pixels = n.op == Op::group_norm || n.op == Op::instance_norm, centred = n.op != Op::rms_norm;
  TensorId y = 0;
  if (n.op == Op::group_norm) {
    const TensorId groups = move(operators::Reshape{.shape = {0, n.groups, -1}}, op_.inputs[0], "groups");
    y = emit(operators::ReshapeLike{}, {normalised(groups, {2}, centred, n.eps), op_.inputs[0]}, "image");
  } else {
    y = normalised(op_.inputs[0], by_pixels ? std::vector{2, 3} : std::vector{columns_axis()}, centred, n.eps);
  }
  std::size_t next = 1;
  if (n.has_scale) y = map(MapOp::mul, y, per_channel(op_.inputs[next++]), "scaled");
  if (n.has_shift) y = map(MapOp::add, y, per_channel(op_.inputs[next]), "shifted");
  // the last of them is the result
  all_.back().output = op_.output;
}

void FormWriter::resize(const operators::Resize& r) {
  single(operators::Resample{.mode = r.mode,
                             .coordinates = r.coordinates,
                             .rounding = r.rounding,
                             .scales = {1, 1, r.height == 0 ? r.scale_h : 0, r.width == 0 ? r.scale_w : 0},
                             .sizes = {0, 0, r.height, r.width},
                             .roi_begin = {},
                             .roi_end = {}});
}

}  // namespace

operators::PoolNd pool_nd(const operators::Pool2d& p) {
  return {.average = p.average,
          .kernel = {p.kernel.h, p.kernel.w},
          .stride = {p.stride.h, p.stride.w},
          .dilation = {p.dilation.h, p.dilation.w},
          .before = {p.pad.top, p.pad.left},
          .after = {p.pad.bottom, p.pad.right},
          .ceil_mode = p.ceil_mode,
          .count_pad = p.count_pad};
}

std::vector<Operator> written_in_f32(Network& network, std::vector<bool>& kept, const Operator& op) {
  FormWriter writer(network, kept, op);
  if (const auto* g = std::get_if<operators::Gemm>(&op.kind)) {
    writer.gemm(*g);
  } else if (const auto* c = std::get_if<operators::Conv2d>(&op.kind)) {
    writer.convolution(*c, false);
  } else if (const auto* t = std::get_if<operators::ConvTranspose2d>(&op.kind)) {
    writer.convolution(*t, true);
  } else {
    return {op};
  }
  kept[op.output] = true;
  return writer.take();
}

std::vector<Operator> written_out(Network& network, std::vector<bool>& kept, const Operator& op) {
  FormWriter writer(network, kept, op);
  if (std::holds_alternative<operators::Softmax>(op.kind)) writer.softmax();
  if (const auto* n = std::get_if<operators::Normalisation>(&op.kind)) writer.normalisation(*n);
  if (const auto* p = std::get_if<operators::Pool2d>(&op.kind)) writer.single(pool_nd(*p));
  if (const auto* r = std::get_if<operators::Resize>(&op.kind)) writer.resize(*r);
  if (std::holds_alternative<operators::GlobalAveragePool>(op.kind))
    writer.single(operators::Reduce{.op = ReduceOp::mean, .axes = {2, 3}, .keep = true});
  return writer.take();
}

}  // namespace unisono::network
