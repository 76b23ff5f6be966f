/// Slices and concatenations of the pixels of one tensor, with reshapes and permutes among them, as one gather with a
/// table of places: exporters write a roll as two slices and a concatenation for each axis, then windows; merged
/// patches as four slices. A pixel is a run of elements along one axis, the columns, that stays together.

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>

#include "network/dim.hpp"
#include "network/infer_tensors.hpp"
#include "network/moves.hpp"
#include "network/shape_limits.hpp"

namespace unisono::network {

namespace {

using Index = std::array<std::int64_t, largest_rank>;  // no memory for each of a table's places

constexpr std::int64_t most_places = 1 << 18;  // of a table: 2 MB
constexpr std::int64_t least_columns = 8;      // of a pixel: 16 bytes of 16 bits

bool is_slice(const Operator& op) { return std::holds_alternative<operators::Slice>(op.kind); }
bool is_concat(const Operator& op) { return std::holds_alternative<operators::Concat>(op.kind); }

// Along the axes, the last one innermost
std::int64_t place_of(const Index& index, const Shape& shape) {
  std::int64_t place = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) place = place * shape[axis].value() + index[axis];
  return place;
}
Index index_of(std::int64_t place, const Shape& shape) {
  Index index{};
  for (std::size_t axis = shape.size(); axis-- > 0; place /= shape[axis].value())
    index[axis] = place % shape[axis].value();
  return index;
}
std::int64_t product_behind(const Shape& shape, std::size_t axis) {
  std::int64_t product = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i) product *= shape[i].value();
  return product;
}

// What the moves between a tensor and what all of its elements come from have in common
struct Common {
  std::optional<TensorId> base;
  std::int64_t columns = 0;  // elements of a pixel: a divisor of every extent along which they lie
  std::int64_t images = 0;   // of the first axis, within which moves stay: likewise
  int copies = 0;            // operators that would copy
  bool selects = false;      // slices and concatenations among them
  std::set<std::pair<TensorId, std::size_t>> seen;  // tensors, by the axis of their columns
};

class GatheredPixels {
 public:
  explicit GatheredPixels(const Network& network)
      : in_(network), out_(network), image_(images_among(network)), made_by_(network.tensors.size(), none) {
    out_.operators.clear();
    for (std::size_t i = 0; i < in_.operators.size(); ++i)
      if (moves_pixels(in_.operators[i])) made_by_[in_.operators[i].output] = i;
  }

  Network run() {
    std::vector<bool> wanted(in_.tensors.size(), false);  // by others than moves
    for (const TensorId id : in_.outputs) wanted[id] = true;
    for (const Operator& op : in_.operators)
      if (made_by_[op.output] == none)
        for (const TensorId id : op.inputs) wanted[id] = true;
    for (const Operator& op : in_.operators)
      if (!(wanted[op.output] && made_by_[op.output] != none && gather(op.output))) out_.operators.push_back(op);
    return std::move(out_);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  bool moves_pixels(const Operator& op) const;
  bool gather(TensorId to);
  bool follow(TensorId to, std::size_t column_axis, Common& common) const;
  std::optional<std::size_t> column_axis_before(const Operator& op, std::size_t axis, TensorId from,
                                                Common& common) const;
  std::int64_t place_in_base(TensorId id, Index index) const;
  std::size_t innermost(TensorId id) const { return image_[id] ? 1 : in_[id].shape.size() - 1; }

  const Network& in_;
  Network out_;
  std::vector<bool> image_;
  std::vector<std::size_t> made_by_;  // by tensor: the move of pixels that makes it
};

bool GatheredPixels::moves_pixels(const Operator& op) const {
  if (!joins_moves(in_, op) && !is_slice(op) && !is_concat(op)) return false;
  return std::ranges::all_of(op.inputs, [&](TensorId id) { return may_be_moved(in_, id, op.output); });
}

// The axis of `from` along which the operator finds what lies along this one of its result; a pixel is what stays
// together. Nothing if none does.
std::optional<std::size_t> GatheredPixels::column_axis_before(const Operator& op, std::size_t axis, TensorId from,
                                                              Common& common) const {
  const Shape &x = in_[from].shape, &y = in_[op.output].shape;
  if (const auto* t = std::get_if<operators::Transpose>(&op.kind)) {
    if (t->order[0] != 0) common.images = 1;
    return static_cast<std::size_t>(t->order[axis]);
  }
  if (const auto* s = std::get_if<operators::Slice>(&op.kind)) {
    for (std::size_t i = 0; i < s->axes.size(); ++i) {
      if (s->axes[i] == 0 && !(x[0] == y[0] && s->steps[i] == 1)) common.images = 1;
      if (static_cast<std::size_t>(s->axes[i]) == axis && !(x[axis] == y[axis] && s->steps[i] == 1))
        return std::nullopt;  // kernels read columns where they lie
    }
    return axis;
  }
  if (const auto* c = std::get_if<operators::Concat>(&op.kind)) {
    if (c->axis == 0) common.images = 1;
    return axis;
  }
  const std::int64_t behind = product_behind(y, axis);
  for (std::size_t a = x.size(); a-- > 0;)
    if (product_behind(x, a) == behind && x[a].value() > 1) return a;
  return std::nullopt;
}

// Back from `to`, whose pixels lie along this axis, to one tensor
bool GatheredPixels::follow(TensorId to, std::size_t column_axis, Common& common) const {
  if (!common.seen.insert({to, column_axis}).second) return true;
  const Shape& shape = in_[to].shape;
  common.columns = std::gcd(common.columns, shape[column_axis].value());
  common.images = std::gcd(common.images, column_axis == 0 ? 1 : shape[0].value());
  if (common.columns < least_columns) return false;
  const std::size_t made_by = made_by_[to];
  if (made_by == none) {
    if (common.base && *common.base != to) return false;
    common.base = to;
    return column_axis == innermost(to);
  }
  const Operator& op = in_.operators[made_by];
  const bool copies = !stays_in_place(in_, op) &&
                      (is_slice(op) || is_concat(op) || std::holds_alternative<operators::Transpose>(op.kind));
  if (copies) ++common.copies;
  common.selects = common.selects || (copies && !std::holds_alternative<operators::Transpose>(op.kind));
  for (const TensorId id : op.inputs) {
    const std::optional<std::size_t> axis = column_axis_before(op, column_axis, id, common);
    if (!axis || !follow(id, *axis, common)) return false;
  }
  return true;
}

// Where an element stands in what all come from
std::int64_t GatheredPixels::place_in_base(TensorId id, Index index) const {
  while (made_by_[id] != none) {
    const Operator& op = in_.operators[made_by_[id]];
    TensorId from = op.inputs[0];
    if (const auto* t = std::get_if<operators::Transpose>(&op.kind)) {
      Index before{};
      for (std::size_t i = 0; i < t->order.size(); ++i) before[static_cast<std::size_t>(t->order[i])] = index[i];
      index = before;
    } else if (const auto* s = std::get_if<operators::Slice>(&op.kind)) {
      for (std::size_t i = 0; i < s->axes.size(); ++i) {
        const auto axis = static_cast<std::size_t>(s->axes[i]);
        const SliceRange range = slice_range(*s, i, in_[from].shape[axis].value());
        index[axis] = range.begin + index[axis] * range.step;
      }
    } else if (const auto* c = std::get_if<operators::Concat>(&op.kind)) {
      const auto axis = static_cast<std::size_t>(c->axis);
      for (std::size_t i = 1; index[axis] >= in_[from].shape[axis].value(); ++i) {
        index[axis] -= in_[from].shape[axis].value();
        from = op.inputs[i];
      }
    } else if (!(in_[from].shape == in_[id].shape)) {
      index = index_of(place_of(index, in_[id].shape), in_[from].shape);
    }
    id = from;
  }
  if (image_[id]) index = {index[0], index[2], index[3], index[1]};
  const Shape& s = in_[id].shape;
  return place_of(index, image_[id] ? Shape{s[0], s[2], s[3], s[1]} : s);
}

bool GatheredPixels::gather(TensorId to) {
  if (in_[to].shape.empty()) return false;
  Common common;
  if (!follow(to, innermost(to), common) || !common.selects || common.copies < 2) return false;
  const Shape& s = in_[to].shape;
  const Shape memory = image_[to] ? Shape{s[0], s[2], s[3], s[1]} : s;
  const auto pixels_of = [&](TensorId id) {
    return element_count(values(in_[id].shape)) / common.images / common.columns;
  };
  const std::int64_t count = pixels_of(to), in_base = pixels_of(*common.base);
  if (std::max(count, in_base) > most_places) return false;
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < count; ++i) {
    Index index = index_of(i * common.columns, memory);
    if (image_[to]) index = {index[0], index[3], index[1], index[2]};
    places.push_back(place_in_base(to, index) / common.columns);
  }
  MoveChain chain(out_, *common.base, to);
  if (image_[*common.base]) chain.permute({0, 2, 3, 1});
  chain.reshape({common.images, in_base, common.columns});
  chain.gather(1, places);
  chain.end(image_[to]);
  return true;
}

}  // namespace

Network gathered_pixels(const Network& network) { return GatheredPixels(network).run(); }

}  // namespace unisono::network
