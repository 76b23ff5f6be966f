/// Operators that compute: elementwise, reductions, products, windows.

#include <algorithm>

#include "network/cuda/tensor/operands.hpp"
#include "network/resample_taps.hpp"
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
  TensorAnswer operator()(const operators::PoolNd& p) const {
    return unary([&](const auto& x, const auto& to) { return tensors::pool(p, x, to); });
  }
  TensorAnswer operator()(const operators::Resample& r) const {
    return unary([&](const auto& x, const auto& to) {
      return tensors::resample(taps_of(r, x.shape, to.shape), static_cast<float>(r.extrapolation), x, to);
    });
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
        tensors::convolve(c, all[0].strided, all[1].strided, has_bias ? &all[3].strided : nullptr, all[2].strided),
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

TensorAnswer launches_of_arithmetic(const TensorOperands& operands) {
  return std::visit(Arithmetic(operands), operands.op.kind);
}

}  // namespace unisono::network::gpu
