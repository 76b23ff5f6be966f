#include "network/element_view.hpp"

#include <algorithm>
#include <cstring>

#include "network/dim.hpp"
#include "network/infer_tensors.hpp"
#include "network/regions.hpp"

namespace unisono::network {

namespace {

using Pieces = std::vector<ViewPiece>;

// The innermost `count` elements of the pieces, which lose them; nothing if they end within a piece that cannot be cut
std::optional<Pieces> take(Pieces& from, const Dim& count) {
  Pieces taken;
  if (!count.known()) {
    if (from.empty() || !(from.back().extent == count)) return std::nullopt;
    taken.push_back(from.back());
    from.pop_back();
    return taken;
  }
  std::int64_t left = count.value();
  if (left < 1) return std::nullopt;
  while (left > 1) {
    if (from.empty()) return std::nullopt;
    ViewPiece& last = from.back();
    const bool known = last.extent.known();
    if (known && last.extent.value() < 1) return std::nullopt;
    if (known && left % last.extent.value() == 0) {
      left /= last.extent.value();
      taken.insert(taken.begin(), last);
      from.pop_back();
      continue;
    }
    if (known && last.extent.value() % left != 0) return std::nullopt;
    taken.insert(taken.begin(), {last.axis, last.step, left});
    last.step *= left;
    last.extent = divided(last.extent, left);
    left = 1;
  }
  return taken;
}

std::optional<ElementView> ranged(const ElementView& view, const operators::Slice& s, const Shape& from) {
  ElementView result = view;
  for (std::size_t i = 0; i < s.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(s.axes[i]);
    if (!from[axis].known() || s.steps[i] != 1) return std::nullopt;
    const SliceRange range = slice_range(s, i, from[axis].value());
    if (range.count == from[axis].value()) continue;
    Pieces& pieces = result.axes[axis];
    if (pieces.size() != 1 || range.count < 1) return std::nullopt;
    ViewPiece& p = pieces[0];
    if (p.axis >= 0) result.begin[static_cast<std::size_t>(p.axis)] += range.begin * p.step;
    p.extent = range.count;
    if (range.count == 1) pieces.clear();
  }
  return result;
}

// The number of an index that is a constant of one element; nothing if it is none
std::optional<std::int64_t> number_of(const NetworkTensor& t) {
  const auto bytes = t.elements();
  if (t.dtype == DType::i64 && bytes.size() == sizeof(std::int64_t)) {
    std::int64_t x;
    return std::memcpy(&x, bytes.data(), sizeof x), x;
  }
  if (t.dtype == DType::i32 && bytes.size() == sizeof(std::int32_t)) {
    std::int32_t x;
    return std::memcpy(&x, bytes.data(), sizeof x), x;
  }
  return std::nullopt;
}

std::optional<ElementView> gathered(const ElementView& view, int axis, const NetworkTensor& index, const Shape& from,
                                    const Shape& to) {
  const auto number = number_of(index);
  const Dim& extent = from[static_cast<std::size_t>(axis)];
  if (!number || !extent.known() || *number < -extent.value() || *number >= extent.value()) return std::nullopt;
  const std::int64_t begin = *number < 0 ? *number + extent.value() : *number;
  const auto one = ranged(view, {.starts = {begin}, .ends = {begin + 1}, .steps = {1}, .axes = {axis}}, from);
  return one ? in_shape(*one, to) : std::nullopt;
}

}  // namespace

ElementView whole_view(TensorId id, const Shape& shape) {
  ElementView view{.base = id, .begin = std::vector<std::int64_t>(shape.size(), 0), .axes = {}};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    view.axes.emplace_back();
    if (!is_one(shape[i])) view.axes.back().push_back({static_cast<int>(i), 1, shape[i]});
  }
  return view;
}

Pieces joined_pieces(const std::vector<Pieces>& axes) {
  Pieces all;
  for (const Pieces& p : axes) all.insert(all.end(), p.begin(), p.end());
  return all;
}

// From the innermost axis outwards; what is left belongs to the outermost, as the number of elements stays
std::optional<ElementView> in_shape(const ElementView& view, const Shape& shape) {
  Pieces rest = joined_pieces(view.axes);
  ElementView result{.base = view.base, .begin = view.begin, .axes = std::vector<Pieces>(shape.size())};
  std::size_t outermost = 0;
  while (outermost < shape.size() && is_one(shape[outermost])) ++outermost;
  for (std::size_t i = shape.size(); i-- > outermost;) {
    if (i == outermost) {
      result.axes[i] = std::move(rest);
      rest.clear();
    } else if (auto taken = take(rest, shape[i])) {
      result.axes[i] = std::move(*taken);
    } else {
      return std::nullopt;
    }
  }
  if (!rest.empty()) return std::nullopt;
  return result;
}

ElementView permuted(const ElementView& view, const std::vector<int>& order) {
  ElementView result{.base = view.base, .begin = view.begin, .axes = {}};
  for (const int i : order) result.axes.push_back(view.axes[static_cast<std::size_t>(i)]);
  return result;
}

ElementView broadcast(const ElementView& view, const Shape& from, const Shape& to) {
  ElementView result{.base = view.base, .begin = view.begin, .axes = std::vector<Pieces>(to.size())};
  const std::size_t first = to.size() - from.size();
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (i >= first && !is_one(from[i - first])) {
      result.axes[i] = view.axes[i - first];
    } else if (!is_one(to[i])) {
      result.axes[i] = {{-1, 0, to[i]}};
    }
  }
  return result;
}

std::optional<ElementView> through(const Network& n, const Operator& op, const ElementView& view) {
  const Shape &from = n[op.inputs[0]].shape, &to = n[op.output].shape;
  const OperatorKind& k = op.kind;
  if (std::holds_alternative<operators::Identity>(k)) return view;
  if (std::holds_alternative<operators::Reshape>(k) || std::holds_alternative<operators::Flatten>(k) ||
      std::holds_alternative<operators::ReshapeLike>(k))
    return in_shape(view, to);
  if (const auto* t = std::get_if<operators::Transpose>(&k)) return permuted(view, t->order);
  if (const auto* s = std::get_if<operators::Slice>(&k)) return ranged(view, *s, from);
  if (std::holds_alternative<operators::Expand>(k)) return broadcast(view, from, to);
  if (const auto* g = std::get_if<operators::Gather>(&k)) return gathered(view, g->axis, n[op.inputs[1]], from, to);
  return std::nullopt;
}

}  // namespace unisono::network
