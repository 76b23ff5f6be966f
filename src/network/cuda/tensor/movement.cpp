/// Operators that move elements as they are.

#include <algorithm>
#include <utility>

#include "network/cuda/tensor/operands.hpp"
#include "network/infer_tensors.hpp"
#include "network/space.hpp"
#include "tensors/map.hpp"
#include "tensors/moves.hpp"

namespace unisono::network::gpu {

namespace {

using tensors::StridedTensor;

class Movement {
 public:
  explicit Movement(const TensorOperands& operands) : o_(operands) {}

  TensorAnswer operator()(const operators::Concat& c) const;
  TensorAnswer operator()(const operators::Pad& p) const;
  TensorAnswer operator()(const operators::Transpose& t) const;
  TensorAnswer operator()(const operators::Slice& s) const;
  TensorAnswer operator()(const operators::Tile& t) const;
  TensorAnswer operator()(const operators::DepthToSpace& d) const;
  TensorAnswer operator()(const operators::Triangle& t) const {
    const WholeTensor x = o_.input(0), to = o_.result();
    return o_.over(tensors::triangle(t, x.strided, to.strided), {x, to});
  }
  TensorAnswer operator()(const operators::Expand&) const { return moved(o_.input(0), o_.result()); }
  TensorAnswer operator()(const operators::Identity&) const { return moved(o_.input(0), o_.result()); }
  // A cast between f32 and the caller's floats of 16 bits: memory has both in the element
  TensorAnswer operator()(const operators::Map& m) const {
    const TensorId x = o_.op.inputs[0];
    const bool is_typed = o_.in.is_constant(x) ? o_.in.net()[x].dtype != DType::f32 : bool{o_.in.fused.own_type[x]};
    if (m.op != MapOp::cast || is_typed || o_.in.fused.own_type[o_.op.output]) return std::nullopt;
    return moved(o_.input(0), o_.result());
  }
  TensorAnswer operator()(const operators::Reshape&) const { return reordered(); }
  TensorAnswer operator()(const operators::PixelReshape&) const { return reordered(); }
  TensorAnswer operator()(const operators::Flatten&) const { return reordered(); }
  TensorAnswer operator()(const operators::ReshapeLike&) const { return reordered(); }
  // A copy of numbers that are known
  TensorAnswer operator()(const operators::ShapeOf& s) const {
    const Sizes& x = o_.in.sizes(o_.op.inputs[0]);
    const WholeTensor to = o_.result();
    const Sizes extents(x.begin() + s.begin, x.begin() + s.end);
    return moved(
        whole_tensor({o_.in.constants.table(extents), s.end - s.begin, DType::i64}, to.strided.shape, DType::i64), to);
  }
  TensorAnswer operator()(const operators::Range&) const {
    const WholeTensor to = o_.result();
    return o_.over(tensors::range(to.strided), {to});
  }
  TensorAnswer operator()(const auto&) const { return std::nullopt; }

 private:
  static TensorAnswer moved(const WholeTensor& x, const WholeTensor& to) {
    return TensorOperands::over(tensors::move(x.strided, to.strided), {x, to});
  }
  TensorAnswer reordered() const;

  const TensorOperands& o_;
};

// Those inputs that are not written in place
TensorAnswer Movement::operator()(const operators::Concat& c) const {
  const auto axis = static_cast<std::size_t>(c.axis);
  std::vector<WholeTensor> all;
  tensors::Launches launches;
  StridedTensor part = o_.result().strided;
  for (const TensorId id : o_.op.inputs) {
    const auto& place = o_.in.fused.placement[id];
    part.shape = o_.in.sizes(id);
    if (!place || place->base != o_.op.output) {
      all.push_back(o_.read(id));
      auto made = tensors::move(all.back().strided, part);
      if (!made) return made.refusal();
      tensors::append(launches, *std::move(made),
                      {tensors::reads(all.size() - 1), tensors::writes(o_.op.inputs.size())});
    }
    part.offset += part.shape[axis] * part.strides[axis];
  }
  all.resize(o_.op.inputs.size());
  all.push_back(o_.result());
  return o_.over(std::move(launches), all);
}

// Where in x an element of the padded axis lies; below 0: nowhere
std::int64_t padded_place(PadMode mode, std::int64_t i, std::int64_t extent) {
  if (mode == PadMode::constant) return i >= 0 && i < extent ? i : -1;
  if (mode == PadMode::edge) return std::clamp<std::int64_t>(i, 0, extent - 1);
  const std::int64_t period = mode == PadMode::wrap ? extent : std::max<std::int64_t>(2 * (extent - 1), 1);
  const std::int64_t k = (i % period + period) % period;
  return k < extent ? k : period - k;
}

TensorAnswer Movement::operator()(const operators::Pad& p) const {
  const WholeTensor x = o_.input(0), to = o_.result();
  std::vector<tensors::PlaceTable> tables(to.strided.shape.size());
  for (std::size_t axis = 0; axis < tables.size(); ++axis) {
    if (p.before[axis] == 0 && p.after[axis] == 0) continue;
    for (std::int64_t i = 0; i < to.strided.shape[axis]; ++i)
      tables[axis].push_back(static_cast<int>(padded_place(p.mode, i - p.before[axis], x.strided.shape[axis])));
  }
  return o_.over(tensors::take(x.strided, to.strided, tables, tensors::filled_with(p.value, to.strided.type.memory)),
                 {x, to});
}

TensorAnswer Movement::operator()(const operators::Transpose& t) const {
  WholeTensor x = o_.input(0);
  const StridedTensor given = x.strided;
  for (std::size_t i = 0; i < t.order.size(); ++i) {
    const auto from = static_cast<std::size_t>(t.order[i]);
    x.strided.shape[i] = given.shape[from], x.strided.strides[i] = given.strides[from];
  }
  return moved(x, o_.result());
}

TensorAnswer Movement::operator()(const operators::Slice& s) const {
  WholeTensor x = o_.input(0);
  const WholeTensor to = o_.result();
  for (std::size_t i = 0; i < s.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(s.axes[i]);
    const SliceRange r = slice_range(s, i, x.strided.shape[axis]);
    x.strided.offset += r.count > 0 ? r.begin * x.strided.strides[axis] : 0;
    x.strided.strides[axis] *= r.count > 1 ? r.step : 1;
  }
  x.strided.shape = to.strided.shape;
  return moved(x, to);
}

// Each axis as (repeat, extent), the first of which does not move in x
TensorAnswer Movement::operator()(const operators::Tile& t) const {
  WholeTensor x = o_.input(0), to = o_.result();
  const StridedTensor given = x.strided, result = to.strided;
  for (auto* list : {&x.strided.shape, &x.strided.strides, &to.strided.strides}) list->clear();
  for (std::size_t i = 0; i < t.repeats.size(); ++i) {
    const std::int64_t extent = given.shape[i];
    x.strided.shape.insert(x.strided.shape.end(), {t.repeats[i], extent});
    x.strided.strides.insert(x.strided.strides.end(), {0, given.strides[i]});
    to.strided.strides.insert(to.strided.strides.end(), {extent * result.strides[i], result.strides[i]});
  }
  to.strided.shape = x.strided.shape;
  return moved(x, to);
}

// The six axes (N, C, H, block, W, block) of the spacious side, and the same of the deep side
TensorAnswer Movement::operator()(const operators::DepthToSpace& d) const {
  WholeTensor x = o_.input(0), to = o_.result();
  StridedTensor &space = d.inverse ? x.strided : to.strided, &depth = d.inverse ? to.strided : x.strided;
  const std::int64_t b = d.block, c = space.shape[1];
  const bool crd = d.column_row_depth;
  const Sizes shape{space.shape[0], c, depth.shape[2], b, depth.shape[3], b}, s = space.strides, q = depth.strides;
  space.strides = {s[0], s[1], s[2] * b, s[2], s[3] * b, s[3]};
  depth.strides = {q[0], crd ? q[1] * b * b : q[1], q[2], (crd ? 1 : c) * b * q[1], q[3], (crd ? 1 : c) * q[1]};
  space.shape = depth.shape = shape;
  return moved(x, to);
}

TensorAnswer Movement::reordered() const {
  WholeTensor x = o_.input(0), to = o_.result();
  if (walks_pixels(o_.op.kind))
    for (StridedTensor* t : {&x.strided, &to.strided})
      t->shape = pixel_order(t->shape), t->strides = pixel_order(t->strides);
  return o_.over(tensors::reorder(x.strided, to.strided), {x, to});
}

}  // namespace

TensorAnswer launches_of_movement(const TensorOperands& operands) {
  return std::visit(Movement(operands), operands.op.kind);
}

}  // namespace unisono::network::gpu
