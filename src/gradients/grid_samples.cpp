/// Samples of images at positions: gradients with respect to the images, which are added where they were read, and to
/// the positions.

#include <algorithm>
#include <cstring>

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"

namespace unisono::autodiff {

namespace {

using operators::GridSample;

NetworkValue where(NetworkValue condition, NetworkValue a, NetworkValue b) {
  return mapped(MapOp::select, {condition, a, b});
}

// What a sample reads along one axis: tensors (N,1,points)
struct GridTap {
  NetworkValue place;   // i64, inside the axis
  NetworkValue weight;  // 0 if the position is outside
  NetworkValue slope;   // of the weight, by the position in the grid
};

class GridAxis {
 public:
  // `at`: the positions along this axis, from −1 to 1
  GridAxis(const GridSample& how, NetworkValue at, std::int64_t extent)
      : how_(how), net_(at.builder()), zero_(number(0)), one_(number(1)), extent_(static_cast<double>(extent)) {
    factor_ = (how.align_corners ? extent_ - 1 : extent_) / 2;
    at_ = (at + 1.0) * factor_ - (how.align_corners ? 0.0 : 0.5);
    slope_ = number(factor_);
    if (how.mode != GridMode::cubic) bring_inside();
  }

  std::vector<GridTap> taps() const {
    if (how_.mode == GridMode::cubic) return cubic_taps();
    if (how_.mode == GridMode::nearest) return {inside(mapped(MapOp::round, {*at_}), one_, zero_)};
    const NetworkValue low = mapped(MapOp::floor, {*at_}), part = *at_ - low;
    return {inside(low, one_ - part, zero_ - *slope_), inside(low + 1.0, part, *slope_)};
  }

 private:
  NetworkValue number(double x) const { return net_.constant(x); }

  void bring_inside() {
    if (how_.padding == GridPadding::reflection) reflect(how_.align_corners);
    if (how_.padding != GridPadding::zeros) clamp();
  }

  // R. Keys' kernel with a = -0.75: its outer parts are a·(x³ − 5x² + 8x − 4), the inner ones (a + 2)·x³ − (a + 3)·x²
  // + 1. Each tap is brought inside by itself
  std::vector<GridTap> cubic_taps() const {
    constexpr double a = -0.75;
    const NetworkValue low = mapped(MapOp::floor, {*at_}), part = *at_ - low;
    std::vector<GridTap> all;
    for (const int i : {-1, 0, 1, 2}) {
      const bool is_left = i <= 0, is_outer = i == -1 || i == 2;
      const NetworkValue x = is_left ? part - i : i - part;
      const NetworkValue weight =
          is_outer ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : (x * (a + 2) - (a + 3)) * square(x) + 1.0;
      const NetworkValue rise = is_outer ? ((x * 3.0 - 10.0) * x + 8.0) * a : (x * (3 * (a + 2)) - 2 * (a + 3)) * x;
      GridAxis tap = *this;
      tap.at_ = low + i;
      tap.bring_inside();
      all.push_back(inside(*tap.at_, weight, (is_left ? rise : -rise) * *slope_));
    }
    return all;
  }

  // To and fro between the last pixels' centres, or their outer edges
  void reflect(bool align_corners) {
    const double low = align_corners ? 0 : -0.5, span = align_corners ? extent_ - 1 : extent_;
    if (span == 0) {
      at_ = *at_ * 0.0, slope_ = zero_;
      return;
    }
    const NetworkValue from = *at_ - low, distance = mapped(MapOp::abs, {from});
    const NetworkValue turns = mapped(MapOp::floor, {distance / span}), rest = distance - turns * span;
    const NetworkValue half = turns * 0.5;
    const NetworkValue is_even = mapped(MapOp::equal, {half, mapped(MapOp::floor, {half})});
    const NetworkValue sign = where(mapped(MapOp::less, {from, zero_}), number(-1), one_);
    at_ = where(is_even, rest, span - rest) + low;
    slope_ = sign * where(is_even, one_, number(-1)) * *slope_;
  }

  // A position beyond the last pixels' centres does not matter
  void clamp() {
    const NetworkValue last = number(extent_ - 1);
    const NetworkValue before = mapped(MapOp::less_equal, {*at_, zero_}),
                       after = mapped(MapOp::greater_equal, {*at_, last});
    slope_ = where(before, zero_, where(after, zero_, *slope_));
    at_ = mapped(MapOp::max, {mapped(MapOp::min, {*at_, last}), zero_});
  }

  GridTap inside(NetworkValue place, NetworkValue weight, NetworkValue slope) const {
    const NetworkValue last = number(extent_ - 1);
    const NetworkValue near = mapped(MapOp::max, {mapped(MapOp::min, {place, last}), zero_});
    const NetworkValue is_inside = mapped(MapOp::equal, {near, place});
    return {mapped_to_i64(where(is_inside, near, zero_)), where(is_inside, weight, zero_),
            where(is_inside, slope, zero_)};
  }
  NetworkValue mapped_to_i64(NetworkValue x) const {
    return net_.apply(operators::Map{.op = MapOp::cast, .to = DType::i64}, {x});
  }

  const GridSample& how_;
  NetworkBuilder& net_;
  NetworkValue zero_, one_;
  double extent_, factor_ = 0;
  std::optional<NetworkValue> at_, slope_;
};

// All the taps of a sample along one axis after the other, and what they add to the gradients
class GridGradient {
 public:
  GridGradient(const GridSample& how, const Use& use)
      : use_(use), x_(extents_of(use.in[0])), axes_(x_.size() - 2), n_(x_[0]), c_(x_[1]) {
    const Extents64 grid = extents_of(use.in[1]);
    points_ = elements_of({grid.begin() + 1, grid.end() - 1}), pixels_ = elements_of({x_.begin() + 2, x_.end()});
    const Extents64 samples{n_, c_, points_};
    g_ = shaped(use.gradient, samples), image_ = shaped(use.in[0], {n_, c_, pixels_});
    sums_ = zeros(use.net, {n_, c_, pixels_});
    for (std::size_t axis = 0; axis < axes_; ++axis)
      taps_.push_back(GridAxis(how, position(axis), x_[axis + 2]).taps());
    std::vector<const GridTap*> chosen;
    add_all(chosen);
  }

  InputGradients result() const {
    InputGradients all(2);
    if (use_.wanted[0]) all[0] = shaped(*sums_, x_);
    if (!use_.wanted[1]) return all;
    std::vector<NetworkValue> last;  // the innermost axis first
    for (std::size_t axis = axes_; axis-- > 0;) last.push_back(shaped(*slopes_[axis], {n_, points_, 1}));
    all[1] = shaped(concat(last, 2), extents_of(use_.in[1]));
    return all;
  }

 private:
  // The grid names the innermost axis first
  NetworkValue position(std::size_t axis) const {
    const auto at = static_cast<std::int64_t>(axes_ - 1 - axis);
    const operators::Slice slice{.starts = {at}, .ends = {at + 1}, .steps = {1}, .axes = {static_cast<int>(axes_ + 1)}};
    return shaped(use_.net.apply(slice, {use_.in[1]}), {n_, 1, points_});
  }

  NetworkValue whole_number(std::int64_t x) const {
    std::vector<std::byte> bytes(sizeof x);
    std::memcpy(bytes.data(), &x, sizeof x);
    return use_.net.constant("extent", {}, DType::i64, std::move(bytes));
  }

  void add_all(std::vector<const GridTap*>& chosen) {
    if (chosen.size() == axes_) return add(chosen);
    for (const GridTap& tap : taps_[chosen.size()]) {
      chosen.push_back(&tap);
      add_all(chosen);
      chosen.pop_back();
    }
  }

  // The weight of a combination of taps, or its slope along an axis
  NetworkValue factor(const std::vector<const GridTap*>& chosen, std::optional<std::size_t> along = {}) const {
    std::optional<NetworkValue> all;
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      const NetworkValue one = axis == along ? chosen[axis]->slope : chosen[axis]->weight;
      all = all ? *all * one : one;
    }
    return *all;
  }

  void add(const std::vector<const GridTap*>& chosen) {
    NetworkValue place = chosen[0]->place;
    for (std::size_t axis = 1; axis < axes_; ++axis)
      place = mapped(MapOp::add, {mapped(MapOp::mul, {place, whole_number(x_[axis + 2])}), chosen[axis]->place});
    place = use_.net.apply(operators::Tile{.repeats = {1, c_, 1}}, {place});
    if (use_.wanted[0])
      sums_ = use_.net.apply(operators::ScatterElements{.axis = 2, .reduction = ScatterReduction::add},
                             {*sums_, place, *g_ * factor(chosen)});
    if (!use_.wanted[1]) return;
    const NetworkValue read = use_.net.apply(operators::GatherElements{.axis = 2}, {*image_, place});
    const NetworkValue of_point = reduced(ReduceOp::sum, read * *g_, {1});
    slopes_.resize(axes_);
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      const NetworkValue part = of_point * factor(chosen, axis);
      slopes_[axis] = slopes_[axis] ? *slopes_[axis] + part : part;
    }
  }

  const Use& use_;
  const Extents64 x_;
  const std::size_t axes_;
  const std::int64_t n_, c_;
  std::int64_t points_ = 0, pixels_ = 0;
  std::optional<NetworkValue> g_, image_, sums_;
  std::vector<std::vector<GridTap>> taps_;
  std::vector<std::optional<NetworkValue>> slopes_;  // by axis: of the positions
};

}  // namespace

// x (N,C,…), grid (N,…,axes)
InputGradients derivative_of(const GridSample& how, const Use& use) {
  if (use.in[0].dtype() != DType::f32 || use.in[1].dtype() != DType::f32)
    refuse_derivative(use, "it computes in f64; gradients are computed in f32");
  return GridGradient(how, use).result();
}

}  // namespace unisono::autodiff
