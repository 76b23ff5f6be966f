/// Rewrites of a network before it is cut into regions.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "network/constant_operator.hpp"
#include "network/dim.hpp"
#include "network/moves.hpp"
#include "network/regions.hpp"
#include "network/resize_tables.hpp"
#include "network/space.hpp"
#include "network/storage.hpp"

namespace unisono::network {

namespace {

constexpr std::int64_t small_constant = 1 << 18;  // elements: a table of positions that is gathered from a smaller one
constexpr std::int64_t most_expanded = 1 << 16;   // elements of a constant that is repeated ahead

class Legaliser {
 public:
  Legaliser(const Network& network, bool upsamples)
      : in_(network), out_(network), upsamples_(upsamples), alias_(network.tensors.size()) {
    for (TensorId id = 0; id < alias_.size(); ++id) alias_[id] = id;
    out_.operators.clear();
  }

  Network run() {
    find_live();
    for (std::size_t i = 0; i < in_.operators.size(); ++i)
      if (live_[i]) rewrite(in_.operators[i]);
    return std::move(out_);
  }

 private:
  void find_live();
  void rewrite(Operator op);
  // Whether f32 of the model's own becomes 16 bits: with_roundings()
  bool rounds(const Operator& op) const { return out_[op.inputs[0]].keeps_f32 && !out_[op.output].keeps_f32; }
  bool compute(const Operator& op);
  bool is_small_product(const Operator& op) const;
  std::vector<Operator>::iterator upsampling_of(const Operator& op);
  bool convolve_before_resize(const Operator& op);
  bool upsample_in_convolution(const Operator& op);
  struct Affine {
    TensorId scale, shift;
  };
  TensorId add_elementwise(const Operator& of, Op kind, std::vector<TensorId> inputs, TensorId output,
                           std::string_view part);
  Affine folded_batch_norm(const Operator& op, const Shape& vector);
  Affine computed_batch_norm(const Operator& op, const Shape& vector);
  void split_batch_norm(const Operator& op);
  void expand_operands(Operator& op);
  TensorId expanded_constant(TensorId id, const Shape& space);
  bool is_output(TensorId id) const {
    return std::find(in_.outputs.begin(), in_.outputs.end(), id) != in_.outputs.end();
  }
  TensorId add_tensor(std::string name, Shape shape, std::shared_ptr<const std::vector<float>> constant = nullptr) {
    out_.tensors.push_back({std::move(name), DType::f32, std::move(shape), std::move(constant), nullptr});
    return static_cast<TensorId>(out_.tensors.size() - 1);
  }

  const Network& in_;
  Network out_;
  const bool upsamples_;
  std::vector<TensorId> alias_;  // by tensor of in_: what stands for it in out_
  std::vector<bool> live_;
  std::vector<int> readers_;  // by tensor of in_: how often live operators read it
  // By tensor of out_ that compute() made: its readers that are not computed. Without any it is dropped.
  std::map<TensorId, int> left_;
};

void Legaliser::find_live() {
  std::vector<bool> needed(in_.tensors.size(), false);
  for (const TensorId id : in_.outputs) needed[id] = true;
  live_.assign(in_.operators.size(), false);
  readers_.assign(in_.tensors.size(), 0);
  for (std::size_t i = in_.operators.size(); i-- > 0;) {
    if (!needed[in_.operators[i].output]) continue;
    live_[i] = true;
    for (const TensorId id : in_.operators[i].inputs) needed[id] = true, ++readers_[id];
  }
}

// Networks that concatenate all of their layers begin with one
bool is_its_input(const Network& n, const Operator& op) {
  const bool concat = std::holds_alternative<operators::Concat>(op.kind);
  return std::holds_alternative<operators::Identity>(op.kind) || (concat && op.inputs.size() == 1) ||
         stays_in_place(n, op);
}

void Legaliser::rewrite(Operator op) {
  for (TensorId& id : op.inputs) id = alias_[id];
  if (is_its_input(out_, op) && !is_output(op.output) && !rounds(op)) {
    alias_[op.output] = op.inputs[0];
    if (const auto at = left_.find(op.inputs[0]); at != left_.end()) at->second += readers_[op.output] - 1;
    return;
  }
  if (compute(op)) return;
  if (convolve_before_resize(op)) return;
  if (upsamples_ && upsample_in_convolution(op)) return;
  if (std::holds_alternative<operators::BatchNorm>(op.kind)) return split_batch_norm(op);
  if (std::holds_alternative<operators::Elementwise>(op.kind)) expand_operands(op);
  out_.operators.push_back(std::move(op));
}

// A product of constants that costs less than planning it
bool Legaliser::is_small_product(const Operator& op) const {
  if (!std::holds_alternative<operators::Gemm>(op.kind) && !std::holds_alternative<operators::MatMul>(op.kind))
    return false;
  const Shape &left = out_[op.inputs[0]].shape, &result = in_[op.output].shape;
  return !result.empty() && element_count(values(left)) * result.back().value() <= 1 << 22;
}

// An operator on constants alone, such as exporters write for weights that are standardised or stored in another order,
// is computed now, so that a filter is a constant. Not if it makes constants much larger: they take memory.
bool Legaliser::compute(const Operator& op) {
  std::vector<const NetworkTensor*> inputs;
  std::int64_t most = 0;
  for (const TensorId id : op.inputs) {
    const NetworkTensor& t = out_[id];
    if (!t.is_constant()) return false;
    most = std::max(most, element_count(values(t.shape)));
    inputs.push_back(&t);
  }
  const Shape& shape = in_[op.output].shape;
  const bool known = std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.known(); });
  if (inputs.empty() || is_output(op.output) || !known || !(is_elementary(op.kind) || is_small_product(op)))
    return false;
  if (element_count(values(shape)) > std::max(most, small_constant)) return false;
  NetworkTensor result = computed(op.kind, inputs, in_[op.output].name);
  for (const TensorId id : op.inputs)
    if (const auto at = left_.find(id); at != left_.end() && --at->second == 0) {
      out_.tensors[id].constant.reset();
      out_.tensors[id].bytes.reset();
    }
  alias_[op.output] = static_cast<TensorId>(out_.tensors.size());
  left_[alias_[op.output]] = readers_[op.output];
  out_.tensors.push_back(std::move(result));
  return true;
}

namespace {

bool upsamples(const operators::Resize& r) {
  return r.mode == ResizeMode::nearest && r.height == 0 && r.width == 0 && r.scale_h >= 1 && r.scale_w >= 1 &&
         r.scale_h * r.scale_w > 1;
}

bool is_of_pixels(const OperatorKind& kind) {
  const auto* c = std::get_if<operators::Conv2d>(&kind);
  return c != nullptr && c->stride == Pair(1) && c->pad == Margins(0);
}

}  // namespace

// The resize of one input that makes the operator's image for it alone; end() if there is none
std::vector<Operator>::iterator Legaliser::upsampling_of(const Operator& op) {
  const TensorId id = op.inputs[0];
  const auto found =
      std::find_if(out_.operators.begin(), out_.operators.end(), [&](const Operator& o) { return o.output == id; });
  if (found == out_.operators.end() || is_output(id)) return out_.operators.end();
  const bool alone = std::holds_alternative<operators::Resize>(found->kind) && found->inputs.size() == 1;
  std::vector<const Operator*> readers;
  for (const Operator& o : in_.operators)
    if (std::find(o.inputs.begin(), o.inputs.end(), id) != o.inputs.end()) readers.push_back(&o);
  if (!alone || readers.size() != 1 || readers[0]->output != op.output) return out_.operators.end();
  return found;
}

// A convolution of single pixels of an image that was upsampled by repeating pixels: of the small image, and then
// upsampled, which is the same bit for bit and less work. Not if what follows would become part of the convolution.
bool Legaliser::convolve_before_resize(const Operator& op) {
  if (!is_of_pixels(op.kind)) return false;
  const Shape& filter = out_[op.inputs[1]].shape;
  if (!(filter[2] == Dim(1)) || !(filter[3] == Dim(1))) return false;
  const auto resize = upsampling_of(op);
  if (resize == out_.operators.end() || !upsamples(std::get<operators::Resize>(resize->kind))) return false;
  for (const Operator& user : in_.operators)
    if (is_pointwise(user.kind) && std::find(user.inputs.begin(), user.inputs.end(), op.output) != user.inputs.end())
      return false;
  Shape small = out_[resize->inputs[0]].shape;
  small[1] = filter[0];
  Operator upsampling = *resize, convolution = op;
  out_.operators.erase(resize);
  convolution.inputs[0] = upsampling.inputs[0];
  convolution.output = add_tensor(in_[op.output].name + "_small", std::move(small));
  out_.tensors[convolution.output].keeps_f32 = in_[op.output].keeps_f32;
  upsampling.inputs[0] = convolution.output;
  upsampling.output = op.output;
  out_.operators.push_back(std::move(convolution));
  out_.operators.push_back(std::move(upsampling));
  return true;
}

namespace {

// Twice as high and wide, each pixel 2x2 times, whatever the extents
bool doubles(const operators::Resize& r, const Shape& small, const Shape& large) {
  if (r.mode != ResizeMode::nearest || r.coordinates == ResizeCoordinates::align_corners) return false;
  const auto axis = [&](std::size_t i, std::int64_t given, double scale) {
    if (given == 0) return scale == 2;
    return small[i].known() && large[i].known() && large[i].value() == 2 * small[i].value();
  };
  if (!axis(2, r.height, r.scale_h) || !axis(3, r.width, r.scale_w)) return false;
  // the pixels that the other formulas take do not depend on the extents
  const cpu::AxisTable table = axis_table(r, 8, 16, 2);
  for (std::size_t i = 0; i < table.low.size(); ++i)
    if (table.low[i] != static_cast<std::int64_t>(i / 2)) return false;
  return true;
}

}  // namespace

// The convolution takes the small image. Only where it can be one of phases, which needs no less padding than pixels
// that its filter's first tap sees at the edge, and channels that the kernels take as they are.
bool Legaliser::upsample_in_convolution(const Operator& op) {
  const auto* c = std::get_if<operators::Conv2d>(&op.kind);
  if (c == nullptr || !(c->stride == Pair(1)) || !(c->dilation == Pair(1)) || c->groups != 1) return false;
  if (in_[op.output].keeps_f32) return false;
  const NetworkTensor& filter = out_[op.inputs[1]];
  if (!filter.constant) return false;
  const Sizes w = values(filter.shape);
  if (w[0] % 8 != 0 || w[1] % 8 != 0) return false;
  if (std::max(c->pad.top, c->pad.bottom) >= w[2] || std::max(c->pad.left, c->pad.right) >= w[3]) return false;
  const auto resize = upsampling_of(op);
  if (resize == out_.operators.end()) return false;
  const Shape &small = out_[resize->inputs[0]].shape, &large = out_[op.inputs[0]].shape;
  if (!doubles(std::get<operators::Resize>(resize->kind), small, large)) return false;
  Operator convolution = op;
  convolution.inputs[0] = resize->inputs[0];
  convolution.kind = operators::UpsampledConv2d{*c};
  out_.operators.erase(resize);
  out_.operators.push_back(std::move(convolution));
  return true;
}

TensorId Legaliser::add_elementwise(const Operator& of, Op kind, std::vector<TensorId> inputs, TensorId output,
                                    std::string_view part) {
  Operator o{operators::Elementwise{.op = kind}, fmt::format("{}{}", of.name, part), std::move(inputs), output};
  expand_operands(o);  // (C,1) is no vector of columns: those of rank 3 are its last axis
  out_.operators.push_back(std::move(o));
  return output;
}

// Computed in float64 and rounded once
Legaliser::Affine Legaliser::folded_batch_norm(const Operator& op, const Shape& vector) {
  const double eps = std::get<operators::BatchNorm>(op.kind).eps;
  const auto data = [&](std::size_t i) -> const std::vector<float>& { return *out_[op.inputs[i]].constant; };
  std::vector<float> scale(data(1).size()), shift(data(1).size());
  for (std::size_t c = 0; c < scale.size(); ++c) {
    const double factor = data(1)[c] / std::sqrt(data(4)[c] + eps);
    scale[c] = static_cast<float>(factor);
    shift[c] = static_cast<float>(data(2)[c] - data(3)[c] * factor);
  }
  return {add_tensor(op.name + "_scale", vector, std::make_shared<const std::vector<float>>(std::move(scale))),
          add_tensor(op.name + "_shift", vector, std::make_shared<const std::vector<float>>(std::move(shift)))};
}

// Written out as arithmetic on (C), of which one kernel makes both
Legaliser::Affine Legaliser::computed_batch_norm(const Operator& op, const Shape& vector) {
  const double eps = std::get<operators::BatchNorm>(op.kind).eps;
  const auto elementwise = [&](Op kind, std::vector<TensorId> inputs, std::string_view part) {
    return add_elementwise(op, kind, std::move(inputs), add_tensor(op.name + std::string(part), {vector[0]}), part);
  };
  Shape wide = vector;  // of rank 4, whose channels are innermost in memory: a view of (C)
  if (wide.size() == 3) wide.insert(wide.begin(), Dim(1));
  const auto lifted = [&](TensorId id, std::string_view part) {
    operators::Reshape r;
    for (const Dim& d : wide) r.shape.push_back(d.known() ? d.value() : -1);
    const TensorId to = add_tensor(op.name + std::string(part), wide);
    out_.operators.push_back({r, op.name + std::string(part), {id}, to});
    return to;
  };
  const std::vector<TensorId>& v = op.inputs;  // x, scale, shift, mean, variance
  const TensorId e = add_tensor("eps", {}, std::make_shared<const std::vector<float>>(1, static_cast<float>(eps)));
  const TensorId r = elementwise(Op::rsqrt, {elementwise(Op::add, {v[4], e}, "_ve")}, "_r");
  const TensorId s = elementwise(Op::mul, {v[1], r}, "_s");
  const TensorId t = elementwise(Op::sub, {v[2], elementwise(Op::mul, {v[3], s}, "_ms")}, "_t");
  return {lifted(s, "_scale"), lifted(t, "_shift_by")};
}

// x·s + t with s = scale/sqrt(variance + eps), t = shift − mean·s: folded if all are constants
void Legaliser::split_batch_norm(const Operator& op) {
  const Shape& shape = in_[op.output].shape;
  const Dim& channels = in_[op.inputs[1]].shape[0];  // known where the image's may be a symbol
  Shape vector(shape.size() - 1, Dim(1));            // (C,1,…)
  vector[0] = channels.known() ? channels : shape[1];
  const bool constant =
      std::all_of(op.inputs.begin() + 1, op.inputs.end(), [&](TensorId id) { return out_[id].constant != nullptr; });
  const Affine affine = constant ? folded_batch_norm(op, vector) : computed_batch_norm(op, vector);
  const TensorId product = add_tensor(op.name + "_product", shape);
  out_.tensors[product].keeps_f32 = in_[op.output].keeps_f32;
  add_elementwise(op, Op::mul, {op.inputs[0], affine.scale}, product, "");
  add_elementwise(op, Op::add, {product, affine.shift}, op.output, "_shift");
}

// A small constant that no axes describe, expanded; one of a single column, such as a factor of each head, along the
// rows alone. The tensor itself for any other.
TensorId Legaliser::expanded_constant(TensorId id, const Shape& space) {
  const NetworkTensor& t = out_[id];
  const bool known = std::all_of(space.begin(), space.end(), [](const Dim& d) { return d.known() && d.value() > 0; });
  if (!t.constant || !known || t.shape.empty() || t.shape.size() > space.size()) return id;
  if (axes_of(t.shape, space, true)) return id;
  const bool by_rows = space.size() != 4 && t.shape.back() == Dim(1);
  NetworkTensor lifted = t;
  lifted.shape.insert(lifted.shape.begin(), space.size() - t.shape.size(), Dim(1));
  operators::Tile tile;
  std::int64_t count = 1;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const bool repeats = lifted.shape[i] == Dim(1) && !(by_rows && i + 1 == space.size());
    tile.repeats.push_back(repeats ? space[i].value() : 1);
    count *= lifted.shape[i].value() * tile.repeats.back();
  }
  if (count > most_expanded) return id;
  out_.tensors.push_back(computed(tile, {&lifted}, t.name + (by_rows ? "_rows" : "_expanded")));
  return static_cast<TensorId>(out_.tensors.size() - 1);
}

void Legaliser::expand_operands(Operator& op) {
  const Shape space = out_[op.output].shape;
  for (TensorId& id : op.inputs) {
    id = expanded_constant(id, space);
    if (axes_of(out_[id].shape, space, true)) continue;
    const std::string name = out_[id].name + "_expanded";
    // any other input of the full shape serves as the model; else expand against each of the others in turn
    for (const TensorId like : std::vector<TensorId>(op.inputs)) {
      if (like == id || axes_of(out_[id].shape, space, true)) continue;
      const NetworkTensor* types[] = {&out_[id], &out_[like]};
      Shape shape = infer_shape(operators::Expand{}, types, op.name);
      if (shape == out_[id].shape) continue;
      const TensorId wide = add_tensor(name, std::move(shape));
      out_.operators.push_back({operators::Expand{}, name, {id, like}, wide});
      id = wide;
    }
  }
}

}  // namespace

Network legalise(const Network& network, bool upsamples) {
  const Network read = vectors_of_columns(broadcast_operands(network));
  const Network moved = joined_moves(gathered_pixels(points_before_moves(read)));
  return Legaliser(rows_of_pixels(turned_matrices(moved)), upsamples).run();
}

}  // namespace unisono::network
