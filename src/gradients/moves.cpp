/// Operators whose results are some of their inputs' elements: the gradients move back.

#include <numeric>

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"
#include "network/infer_tensors.hpp"

namespace unisono::autodiff {

namespace {

InputGradients reshaped_back(const Use& use) {
  InputGradients result(use.in.size());
  result[0] = shaped(use.gradient, extents_of(use.in[0]));
  return result;
}

// Zeros between the elements along an axis, so that they lie `step` apart: `step` elements for each
NetworkValue spread(NetworkValue x, std::size_t axis, std::int64_t step) {
  Extents64 shape = extents_of(x);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
  Extents64 before(shape.size(), 0), after(shape.size(), 0);
  after[axis + 1] = step - 1;
  Extents64 whole = extents_of(x);
  whole[axis] *= step;
  return shaped(pad(shaped(x, shape), before, after), whole);
}

// What a range along an axis of `extent` elements was taken from, with zeros elsewhere
NetworkValue placed(NetworkValue g, std::size_t axis, network::SliceRange r, std::int64_t extent) {
  if (r.step < 0) {
    g = reversed(g, static_cast<int>(axis));
    r.begin += (r.count - 1) * r.step;
    r.step = -r.step;
  }
  if (r.step > 1) g = spread(g, axis, r.step);
  Extents64 before(g.shape().size(), 0), after = before;
  before[axis] = r.begin;
  after[axis] = extent - r.begin - extents_of(g)[axis];  // negative: zeros behind the last element
  return before[axis] == 0 && after[axis] == 0 ? g : pad(g, before, after);
}

// The element of x that stands at each place of an axis that Pad repeats: rows of the result, columns of x
std::vector<float> repeats_by_pad(const operators::Pad& p, std::size_t axis, std::int64_t from, std::int64_t to) {
  std::vector<float> reads(static_cast<std::size_t>(to * from), 0.0f);
  for (std::int64_t i = 0; i < to; ++i) {
    std::int64_t at = i - p.before[axis];
    if (p.mode == PadMode::edge) at = std::clamp<std::int64_t>(at, 0, from - 1);
    if (p.mode == PadMode::wrap) at = ((at % from) + from) % from;
    if (p.mode == PadMode::reflect) {
      const std::int64_t period = std::max<std::int64_t>(2 * (from - 1), 1);
      at = ((at % period) + period) % period;
      at = at < from ? at : period - at;
    }
    reads[static_cast<std::size_t>(i * from + at)] = 1;
  }
  return reads;
}

}  // namespace

InputGradients derivative_of(const operators::Concat& c, const Use& use) {
  InputGradients result(use.in.size());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < use.in.size(); ++i) {
    const std::int64_t end = begin + extents_of(use.in[i])[static_cast<std::size_t>(c.axis)];
    if (use.wanted[i]) result[i] = range_of(use.gradient, c.axis, begin, end);
    begin = end;
  }
  return result;
}

InputGradients derivative_of(const operators::Pad& p, const Use& use) {
  NetworkValue g = use.gradient;
  if (p.mode == PadMode::constant) {
    Extents64 before = p.before, after = p.after;
    for (auto* side : {&before, &after})
      for (std::int64_t& n : *side) n = -n;
    return {pad(g, before, after)};
  }
  const Extents64 x = extents_of(use.in[0]), y = extents_of(use.out);
  for (std::size_t axis = 0; axis < x.size(); ++axis)
    if (p.before[axis] != 0 || p.after[axis] != 0)
      g = multiplied_along(g, axis, repeats_by_pad(p, axis, x[axis], y[axis]), x[axis]);
  return {g};
}

InputGradients derivative_of(const operators::Slice& s, const Use& use) {
  NetworkValue g = use.gradient;
  const Extents64 x = extents_of(use.in[0]);
  for (std::size_t i = 0; i < s.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(s.axes[i]);
    g = placed(g, axis, network::slice_range(s, i, x[axis]), x[axis]);
  }
  return {g};
}

InputGradients derivative_of(const operators::Reshape&, const Use& use) { return reshaped_back(use); }
InputGradients derivative_of(const operators::Flatten&, const Use& use) { return reshaped_back(use); }
InputGradients derivative_of(const operators::ReshapeLike&, const Use& use) { return reshaped_back(use); }
InputGradients derivative_of(const operators::Identity&, const Use& use) { return {use.gradient}; }

InputGradients derivative_of(const operators::Transpose& t, const Use& use) {
  std::vector<int> back(t.order.size());
  for (std::size_t i = 0; i < t.order.size(); ++i) back[static_cast<std::size_t>(t.order[i])] = static_cast<int>(i);
  return {transpose(use.gradient, back)};
}

InputGradients derivative_of(const operators::Expand&, const Use& use) {
  return {summed_to(use.gradient, extents_of(use.in[0])), std::nullopt};
}

// Each axis as (repeat, extent)
InputGradients derivative_of(const operators::Tile& t, const Use& use) {
  const Extents64 x = extents_of(use.in[0]);
  Extents64 apart;
  std::vector<int> axes;
  for (std::size_t i = 0; i < x.size(); ++i) {
    axes.push_back(static_cast<int>(apart.size()));
    apart.insert(apart.end(), {t.repeats[i], x[i]});
  }
  if (axes.empty()) return {use.gradient};
  return {shaped(reduced(ReduceOp::sum, shaped(use.gradient, apart), axes), x)};
}

InputGradients derivative_of(const operators::DepthToSpace& d, const Use& use) {
  operators::DepthToSpace back = d;
  back.inverse = !d.inverse;
  return {use.net.apply(back, {use.gradient})};
}

InputGradients derivative_of(const operators::Triangle& t, const Use& use) {
  return {use.net.apply(t, {use.gradient})};
}

}  // namespace unisono::autodiff
