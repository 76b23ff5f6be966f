/// A scatter whose constant indices are those of a box of x, as exporters write `x[:, :, 1:] = y`, is y between what
/// is left of x, or y alone.

#include <algorithm>
#include <cstring>

#include "network/dim.hpp"
#include "network/element_view.hpp"
#include "network/regions.hpp"

namespace unisono::network {

namespace {

// Along an axis of x
struct AssignedRange {
  std::int64_t begin = 0, count = 1;
  int along = -1;  // which axis of the indices; none: of one element
};

class AssignedRanges {
 public:
  explicit AssignedRanges(const Network& network) : in_(network), out_(network), maker_(network.tensors.size()) {
    out_.operators.clear();
    for (std::size_t i = 0; i < in_.operators.size(); ++i) maker_[in_.operators[i].output] = i;
  }

  Network run() {
    for (const Operator& op : in_.operators) {
      const auto ranges = ranges_of(op);
      if (ranges)
        write(op, *ranges);
      else
        out_.operators.push_back(op);
    }
    return std::move(out_);
  }

 private:
  const Operator* maker(TensorId id) const { return maker_[id] ? &in_.operators[*maker_[id]] : nullptr; }
  std::optional<ElementView> view_of(TensorId id) const;
  std::optional<AssignedRange> range_of(TensorId component) const;
  std::optional<std::vector<AssignedRange>> box_of(const NetworkTensor& indices, std::size_t axes) const;
  std::optional<std::vector<AssignedRange>> ranges_of(const Operator& op) const;
  void write(const Operator& op, const std::vector<AssignedRange>& ranges);
  TensorId beside(const Operator& op, const std::vector<AssignedRange>& ranges, std::size_t axis, std::int64_t begin,
                  std::int64_t end);
  TensorId add(const Operator& op, const std::vector<std::int64_t>& shape) {
    NetworkTensor t{in_[op.output].name + "_part", in_[op.output].dtype, to_shape(shape), nullptr, nullptr,
                    in_[op.output].keeps_f32};
    out_.tensors.push_back(std::move(t));
    return static_cast<TensorId>(out_.tensors.size() - 1);
  }

  const Network& in_;
  Network out_;
  std::vector<std::optional<std::size_t>> maker_;  // by tensor
};

bool is_known_shape(const Shape& shape) {
  return std::ranges::all_of(shape, [](const Dim& d) { return d.known() && d.value() > 0; });
}

// The elements of a constant, as moves and repetitions left them
std::optional<ElementView> AssignedRanges::view_of(TensorId id) const {
  if (in_[id].is_constant()) return whole_view(id, in_[id].shape);
  const Operator* op = maker(id);
  if (op == nullptr || op->inputs.empty()) return std::nullopt;
  const auto view = view_of(op->inputs[0]);
  const auto* tile = std::get_if<operators::Tile>(&op->kind);
  if (!view || tile == nullptr) return view ? through(in_, *op, *view) : std::nullopt;
  const Shape& from = in_[op->inputs[0]].shape;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (tile->repeats[i] != 1 && !is_one(from[i])) return std::nullopt;
  return broadcast(*view, from, in_[op->output].shape);
}

// Indices that count up from one, along one axis
std::optional<AssignedRange> AssignedRanges::range_of(TensorId component) const {
  const auto view = view_of(component);
  if (!view || in_[view->base].dtype != DType::i64) return std::nullopt;
  AssignedRange range;
  std::int64_t step = 0;
  const std::vector<std::int64_t> shape = values(in_[view->base].shape);
  for (std::size_t axis = 0; axis < view->axes.size(); ++axis)
    for (const ViewPiece& piece : view->axes[axis]) {
      if (piece.axis < 0) continue;
      if (range.along >= 0 || view->axes[axis].size() != 1) return std::nullopt;
      range.along = static_cast<int>(axis), range.count = piece.extent.value(), step = piece.step;
      for (std::size_t i = static_cast<std::size_t>(piece.axis) + 1; i < shape.size(); ++i) step *= shape[i];
    }
  std::int64_t place = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) place = place * shape[i] + view->begin[i];
  for (std::int64_t i = 0; i < range.count; ++i) {
    std::int64_t index = 0;
    std::memcpy(&index, in_[view->base].elements().data() + (place + i * step) * std::int64_t{sizeof index},
                sizeof index);
    if (i == 0) range.begin = index;
    if (index != range.begin + i) return std::nullopt;
  }
  return range;
}

// The box that a constant of all tuples names
std::optional<std::vector<AssignedRange>> AssignedRanges::box_of(const NetworkTensor& indices, std::size_t axes) const {
  if (indices.dtype != DType::i64) return std::nullopt;
  std::vector<std::int64_t> all(indices.elements().size() / sizeof(std::int64_t));
  std::memcpy(all.data(), indices.elements().data(), all.size() * sizeof(std::int64_t));
  std::vector<AssignedRange> ranges(axes);
  const std::size_t last = all.size() - axes;
  std::int64_t covered = 1;
  for (std::size_t k = 0; k < axes; ++k) {
    ranges[k] = {.begin = all[k], .count = all[last + k] - all[k] + 1};
    covered *= std::clamp<std::int64_t>(ranges[k].count, 0, std::ssize(all));
  }
  if (covered * std::ssize(ranges) != std::ssize(all)) return std::nullopt;
  for (std::size_t i = 0; i < all.size(); i += axes) {
    auto number = static_cast<std::int64_t>(i / axes);
    for (std::size_t k = axes; k-- > 0; number /= ranges[k].count)
      if (all[i + k] != ranges[k].begin + number % ranges[k].count) return std::nullopt;
  }
  return ranges;
}

// By axis of x; nothing if the indices are not those of a box, in its order
std::optional<std::vector<AssignedRange>> AssignedRanges::ranges_of(const Operator& op) const {
  const auto* scatter = std::get_if<operators::ScatterND>(&op.kind);
  if (scatter == nullptr || scatter->reduction != ScatterReduction::none) return std::nullopt;
  const bool kept = in_[op.output].keeps_f32;
  if (in_[op.inputs[0]].keeps_f32 != kept || in_[op.inputs[2]].keeps_f32 != kept) return std::nullopt;
  const Shape &x = in_[op.inputs[0]].shape, &indices = in_[op.inputs[1]].shape;
  if (!is_known_shape(x) || !is_known_shape(indices)) return std::nullopt;
  const auto axes = static_cast<std::size_t>(indices.back().value());
  const auto lie_in_x = [&](const std::vector<AssignedRange>& all) {
    for (std::size_t k = 0; k < all.size(); ++k)
      if (all[k].begin < 0 || all[k].begin + all[k].count > x[k].value()) return false;
    return true;
  };
  if (in_[op.inputs[1]].is_constant()) {
    auto box = box_of(in_[op.inputs[1]], axes);
    return box && lie_in_x(*box) ? std::move(box) : std::nullopt;
  }
  const Operator* joined = maker(op.inputs[1]);
  const auto* concat = joined == nullptr ? nullptr : std::get_if<operators::Concat>(&joined->kind);
  const bool is_joined = concat != nullptr && concat->axis == static_cast<int>(indices.size()) - 1;
  const std::vector<TensorId> components = is_joined ? joined->inputs : std::vector<TensorId>{op.inputs[1]};
  if (components.size() != axes) return std::nullopt;
  std::vector<AssignedRange> ranges;
  std::int64_t covered = 1;
  int last = -1;
  for (const TensorId component : components) {
    const auto range = range_of(component);
    if (!range) return std::nullopt;
    if (range->along >= 0 && std::exchange(last, range->along) >= range->along) return std::nullopt;
    covered *= range->count;
    ranges.push_back(*range);
  }
  const std::int64_t tuples = element_count(values(indices)) / indices.back().value();
  return covered == tuples && lie_in_x(ranges) ? std::optional(std::move(ranges)) : std::nullopt;
}

// A range of x along an axis, from `begin` to `end`: of axes ahead of it only what is assigned
TensorId AssignedRanges::beside(const Operator& op, const std::vector<AssignedRange>& ranges, std::size_t axis,
                                std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> shape = values(in_[op.inputs[0]].shape);
  operators::Slice slice{.starts = {begin}, .ends = {end}, .steps = {1}, .axes = {static_cast<int>(axis)}};
  shape[axis] = end - begin;
  for (std::size_t i = 0; i < axis; ++i) {
    slice.starts.push_back(ranges[i].begin), slice.ends.push_back(ranges[i].begin + ranges[i].count);
    slice.steps.push_back(1), slice.axes.push_back(static_cast<int>(i));
    shape[i] = ranges[i].count;
  }
  const TensorId made = add(op, shape);
  out_.operators.push_back({std::move(slice), op.name, {op.inputs[0]}, made});
  return made;
}

void AssignedRanges::write(const Operator& op, const std::vector<AssignedRange>& ranges) {
  std::vector<std::int64_t> shape = values(in_[op.inputs[0]].shape);
  const std::vector<std::int64_t> whole = shape;
  for (std::size_t i = 0; i < ranges.size(); ++i) shape[i] = ranges[i].count;
  TensorId inner = add(op, shape);
  out_.operators.push_back({operators::Reshape{.shape = shape, .literal = true}, op.name, {op.inputs[2]}, inner});
  for (std::size_t axis = ranges.size(); axis-- > 0;) {
    const AssignedRange& r = ranges[axis];
    if (r.count == whole[axis]) continue;
    std::vector<TensorId> parts;
    if (r.begin > 0) parts.push_back(beside(op, ranges, axis, 0, r.begin));
    parts.push_back(inner);
    if (r.begin + r.count < whole[axis]) parts.push_back(beside(op, ranges, axis, r.begin + r.count, whole[axis]));
    shape[axis] = whole[axis];
    inner = add(op, shape);
    out_.operators.push_back({operators::Concat{static_cast<int>(axis)}, op.name, std::move(parts), inner});
  }
  out_.operators.back().output = op.output;
}

}  // namespace

Network with_assigned_ranges(const Network& network) { return AssignedRanges(network).run(); }

}  // namespace unisono::network
