/// Operators that compute: elementwise, reductions, products, windows.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "network/cuda/tensor/operators.hpp"
#include "network/islands.hpp"
#include "network/resample_taps.hpp"
#include "network/resize_tables.hpp"
#include "tensors/lines.hpp"
#include "tensors/map.hpp"
#include "tensors/recurrence.hpp"
#include "tensors/reduce.hpp"
#include "tensors/windows.hpp"

namespace unisono::network::gpu {

namespace {

// Taps as kernels read them: a place that lies outside has one of no element
tensors::WeightedTaps marked(const cpu::AxisTaps& taps, const std::vector<bool>& outside) {
  tensors::WeightedTaps all{{0}, {}, {}};
  for (std::size_t i = 0; i + 1 < taps.first.size(); ++i) {
    const bool is_outside = i < outside.size() && outside[i];
    for (auto k = static_cast<std::size_t>(taps.first[i]);
         !is_outside && k < static_cast<std::size_t>(taps.first[i + 1]); ++k)
      all.places.push_back(static_cast<int>(taps.places[k])), all.weights.push_back(taps.weights[k]);
    if (is_outside) all.places.push_back(-1), all.weights.push_back(1);
    all.first.push_back(static_cast<int>(all.places.size()));
  }
  return all;
}

// By axis of x; none of an axis that stays
std::vector<tensors::WeightedTaps> taps_of(const operators::Resample& r, const Sizes& x, const Sizes& y) {
  std::vector<tensors::WeightedTaps> taps(x.size());
  const auto outside = outside_positions(r, x, y);
  for (std::size_t axis = 0; axis < x.size(); ++axis)
    if (!leaves_axis(r, axis, x[axis], y[axis]))
      taps[axis] = marked(axis_taps(r, axis, x[axis], y[axis]), outside[axis]);
  return taps;
}

// An axis of a table; nothing if it stays as it is
tensors::WeightedTaps taps_of(const cpu::AxisTable& table, std::int64_t extent) {
  tensors::WeightedTaps all{{0}, {}, {}};
  bool stays = std::ssize(table.low) == extent;
  for (std::size_t i = 0; i < table.low.size(); ++i) {
    const std::int64_t low = table.low[i], high = table.weight.empty() ? low : table.high[i];
    const double weight = low == high ? 0 : table.weight[i];
    for (const auto& [place, part] : {std::pair{low, 1 - weight}, {high, weight}}) {
      if (part == 0) continue;
      all.places.push_back(static_cast<int>(place)), all.weights.push_back(part);
    }
    all.first.push_back(static_cast<int>(all.places.size()));
    stays = stays && weight == 0 && low == static_cast<std::int64_t>(i);
  }
  return stays ? tensors::WeightedTaps{} : all;
}

// Whether it is an image in the network's 16 bits, whose pixels may be read and written up to the end of their last
// octet of channels
bool ends_at_octets(const tensors::StridedTensor& x) {
  return x.shape.size() == 4 && x.type.value == DType::f32 && size_of(x.type.memory) == 2 && x.strides[1] == 1 &&
         x.strides[3] % 8 == 0;
}

// With whole octets of channels, where both have these
void widen(WholeTensor& x, WholeTensor& to) {
  if (!ends_at_octets(x.strided) || !ends_at_octets(to.strided)) return;
  for (WholeTensor* image : {&x, &to}) image->strided.shape[1] = (image->strided.shape[1] + 7) / 8 * 8;
}

plan::Expected<TensorLaunches> resampled(const std::vector<tensors::WeightedTaps>& taps, float outside, WholeTensor x,
                                         WholeTensor to) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  for (std::size_t i = 0; i < taps.size(); ++i)
    if (const std::int64_t extent = x.strided.shape[i]; !taps[i].first.empty() && extent > most)
      return because(fmt::format("size: extent {}; kernels count places to {}", extent, most));
  if (taps.size() > 1 && taps[1].first.empty()) widen(x, to);
  return TensorOperands::over(tensors::resample(taps, outside, x.strided, to.strided), {x, to});
}

class Arithmetic {
 public:
  explicit Arithmetic(const TensorOperands& operands) : o_(operands) {}

  TensorAnswer operator()(const operators::Map& m) const {
    std::vector<WholeTensor> all;
    for (std::size_t i = 0; i < o_.op.inputs.size(); ++i) all.push_back(o_.exact(i));
    all.push_back(o_.result());
    std::vector<tensors::StridedTensor> strided;
    std::vector<tensors::ElementType> types;
    for (const WholeTensor& t : all) strided.push_back(t.strided), types.push_back(t.strided.type);
    types.pop_back();
    return o_.over(tensors::map(tensors::program_of(m, types, strided.back().type), strided), all);
  }
  TensorAnswer operator()(const operators::Reduce& r) const {
    return unary([&](const auto& x, const auto& to) { return tensors::reduce(r, x, to); });
  }
  TensorAnswer operator()(const operators::ArgReduce& a) const {
    return unary([&](const auto& x, const auto& to) { return tensors::arg_reduce(a, x, to); });
  }
  TensorAnswer operator()(const operators::CumulativeSum& c) const {
    return unary([&](const auto& x, const auto& to) { return tensors::cumulative_sum(c, x, to); });
  }
  TensorAnswer operator()(const operators::TopK& k) const {
    return unary([&](const auto& x, const auto& to) { return tensors::top_k(k, x, to); });
  }
  TensorAnswer operator()(const operators::Pool2d& p) const { return (*this)(pool_nd(p)); }
  TensorAnswer operator()(const operators::PoolNd& p) const {
    WholeTensor x = o_.input(0), to = o_.result();
    widen(x, to);
    return o_.over(tensors::pool(p, x.strided, to.strided), {x, to});
  }
  TensorAnswer operator()(const operators::Resize& r) const { return resized(r, o_.input(0), o_.result()); }
  TensorAnswer operator()(const operators::Resample& r) const {
    const WholeTensor x = o_.input(0), to = o_.result();
    return resampled(taps_of(r, x.strided.shape, to.strided.shape), static_cast<float>(r.extrapolation), x, to);
  }
  TensorAnswer operator()(const operators::MatMul&) const {
    const WholeTensor a = o_.exact(0), b = o_.exact(1), to = o_.result();
    return o_.over(tensors::matmul(a.strided, b.strided, to.strided), {a, b, to});
  }
  TensorAnswer operator()(const operators::GridSample& g) const {
    const WholeTensor x = o_.input(0), grid = o_.exact(1), to = o_.result();
    return o_.over(tensors::grid_sample(g, x.strided, grid.strided, to.strided), {x, grid, to});
  }
  TensorAnswer operator()(const operators::Recurrence& r) const {
    std::vector<WholeTensor> all{o_.exact(0), o_.input(1), o_.result()};
    for (std::size_t i = 2; i < o_.op.inputs.size(); ++i) all.push_back(o_.exact(i));
    std::size_t next = 3;
    const auto optional = [&](bool given) { return given ? &all[next++].strided : nullptr; };
    tensors::RecurrenceTensors t{all[0].strided, all[1].strided, all[2].strided};
    t.extra = optional(r.has_extra), t.lengths = optional(r.has_lengths);
    t.h = optional(r.has_h), t.c = optional(r.has_c);
    return o_.over(tensors::recurrence(r, t), all);
  }
  TensorAnswer operator()(const operators::Conv3d& c) const {
    std::vector<WholeTensor> all{o_.input(0), o_.exact(1), o_.result()};
    const bool has_bias = o_.op.inputs.size() == 3;
    if (has_bias) all.push_back(o_.exact(2));
    return o_.over(
        tensors::convolve(c, all[0].strided, all[1].strided, has_bias ? &all[3].strided : nullptr, all[2].strided,
                          lanes_of(o_.in.device, element_count(o_.result_sizes()), all[0].strided.shape[1] / c.groups)),
        all);
  }
  TensorAnswer operator()(const auto&) const { return std::nullopt; }

 private:
  template <class F>
  TensorAnswer unary(const F& launches) const {
    const WholeTensor x = o_.input(0), to = o_.result();
    return o_.over(launches(x.strided, to.strided), {x, to});
  }

  const TensorOperands& o_;
};

}  // namespace

plan::Expected<TensorLaunches> resized(const operators::Resize& r, const WholeTensor& x, const WholeTensor& to) {
  const auto taps = [&](std::size_t axis, double scale) {
    const std::int64_t extent = x.strided.shape[axis];
    return taps_of(axis_table(r, extent, to.strided.shape[axis], scale), extent);
  };
  return resampled({{}, {}, taps(2, r.height != 0 ? 0 : r.scale_h), taps(3, r.width != 0 ? 0 : r.scale_w)}, 0, x, to);
}

std::uint32_t lanes_of(const plan::Device& device, std::int64_t outputs, std::int64_t channels) {
  std::uint32_t lanes = 1;
  while (lanes < 32 && 8 * std::int64_t{lanes} <= channels && 2 * lanes * outputs <= std::int64_t{2048} * device.sms)
    lanes *= 2;
  return lanes;
}

TensorAnswer launches_of_arithmetic(const TensorOperands& operands) {
  return std::visit(Arithmetic(operands), operands.op.kind);
}

}  // namespace unisono::network::gpu
