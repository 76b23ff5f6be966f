/// Steps of the operators on tensors of any type.

#include <algorithm>
#include <array>
#include <cstring>

#include "network/infer_tensors.hpp"
#include "network/names.hpp"
#include "network/resample_taps.hpp"
#include "network/steps.hpp"
#include "network/tensor_view.hpp"
#include "runtime/cpu/ops/conv3d.hpp"
#include "runtime/cpu/ops/copy.hpp"
#include "runtime/cpu/ops/filter_gradient.hpp"
#include "runtime/cpu/ops/map.hpp"
#include "runtime/cpu/ops/matmul.hpp"
#include "runtime/cpu/ops/pool_nd.hpp"
#include "runtime/cpu/ops/reduce.hpp"
#include "runtime/cpu/ops/take.hpp"
#include "runtime/cpu/worker_pool.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

using Run = OperatorStep;
using cpu::Strided;

using View = ViewOfTensor;

class TensorStep {
 public:
  TensorStep(const Network& n, const Operator& op, const StoragePlan& storage, const cpu::Parallel& parallel,
             int threads)
      : n_(n), op_(op), storage_(storage), parallel_(parallel), threads_(threads) {}

  Run operator()(const operators::Map& m) const;
  Run operator()(const operators::Reduce& r) const;
  Run operator()(const operators::ArgReduce& a) const;
  Run operator()(const operators::Slice& s) const;
  Run operator()(const operators::Gather& g) const;
  Run operator()(const operators::Tile& t) const;
  Run operator()(const operators::DepthToSpace& d) const;
  Run operator()(const operators::ShapeOf& s) const;
  Run operator()(const operators::MatMul&) const;
  Run operator()(const operators::Conv3d& c) const;
  Run operator()(const operators::FilterGradient& f) const;
  Run operator()(const operators::PoolNd& p) const;
  Run operator()(const operators::Resample& r) const;
  Run operator()(const auto&) const { return index_step(n_, op_, storage_, parallel_, threads_); }

 private:
  View in(std::size_t i) const { return view_of_tensor(n_, storage_, op_.inputs[i]); }
  View out() const { return view_of_tensor(n_, storage_, op_.output); }
  // Like `out`, but with an axis of extent 1 wherever a reduction dropped one
  View kept(const std::vector<int>& axes) const;
  Run strided_copy(const cpu::Extents64& shape, const View& from, const cpu::Extents64& from_strides,
                   std::int64_t from_offset, const cpu::Extents64& to_strides) const;

  const Network& n_;
  const Operator& op_;
  const StoragePlan& storage_;
  const cpu::Parallel& parallel_;
  int threads_;
};

// Strides of an operand as the result's indices walk over it
Strided broadcast(Strided x, const cpu::Extents64& shape) {
  cpu::Extents64 strides(shape.size(), 0);
  for (std::size_t i = 0; i < x.shape.size(); ++i)
    if (x.shape[i] != 1) strides[shape.size() - x.shape.size() + i] = x.strides[i];
  x.shape = shape;
  x.strides = std::move(strides);
  return x;
}

Run TensorStep::operator()(const operators::Map& m) const {
  std::vector<View> inputs;
  const View to = out();
  for (std::size_t i = 0; i < op_.inputs.size(); ++i) {
    inputs.push_back(in(i));
    inputs.back().strided = broadcast(inputs.back().strided, to.strided.shape);
  }
  return [inputs, to, op = m.op, parallel = parallel_, name = where(op_)](const Tensors& t) {
    std::array<Strided, 3> x;
    for (std::size_t i = 0; i < inputs.size(); ++i) x[i] = inputs[i].at(t);
    try {
      cpu::map(op, std::span(x).first(inputs.size()), to.at(t), parallel);
    } catch (const UserError& error) {
      throw UserError(name + ": " + error.what());
    }
  };
}

View TensorStep::kept(const std::vector<int>& axes) const {
  View v = out();
  const std::size_t rank = storage_.shapes[op_.inputs[0]].size();
  if (v.strided.shape.size() == rank) return v;
  cpu::Extents64 shape, strides;
  std::size_t at = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    const bool gone = std::find(axes.begin(), axes.end(), static_cast<int>(i)) != axes.end();
    shape.push_back(gone ? 1 : v.strided.shape[at]);
    strides.push_back(gone ? 0 : v.strided.strides[at]);
    at += gone ? 0 : 1;
  }
  v.strided.shape = std::move(shape);
  v.strided.strides = std::move(strides);
  return v;
}

Run TensorStep::operator()(const operators::Reduce& r) const {
  const View x = in(0);
  std::vector<int> axes = r.axes;
  for (std::size_t i = 0; r.axes.empty() && i < x.strided.shape.size(); ++i) axes.push_back(static_cast<int>(i));
  return [x, axes, to = kept(axes), op = r.op, parallel = parallel_](const Tensors& t) {
    cpu::reduce(op, x.at(t), axes, to.at(t), parallel);
  };
}

Run TensorStep::operator()(const operators::ArgReduce& a) const {
  return [x = in(0), to = kept({a.axis}), a, parallel = parallel_](const Tensors& t) {
    cpu::arg_reduce(a.smallest, a.last, a.axis, x.at(t), to.at(t), parallel);
  };
}

Run TensorStep::strided_copy(const cpu::Extents64& shape, const View& from, const cpu::Extents64& from_strides,
                             std::int64_t from_offset, const cpu::Extents64& to_strides) const {
  const std::size_t size = size_of(from.strided.dtype);
  return [=, to = op_.output, from = from.id, parallel = parallel_](const Tensors& t) {
    const auto* source = static_cast<const char*>(t.data(from)) + from_offset * static_cast<std::int64_t>(size);
    cpu::copy_elements(size, shape, source, from_strides, const_cast<void*>(t.data(to)), to_strides, parallel);
  };
}

Run TensorStep::operator()(const operators::Slice& s) const {
  const View x = in(0), y = out();
  cpu::Extents64 strides = x.strided.strides;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < s.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(s.axes[i]);
    const SliceRange r = slice_range(s, i, x.strided.shape[axis]);
    if (r.count > 0) offset += r.begin * strides[axis];
    strides[axis] *= r.count > 1 ? r.step : 1;
  }
  return strided_copy(y.strided.shape, x, strides, offset, y.strided.strides);
}

Run TensorStep::operator()(const operators::Gather& g) const {
  return [x = in(0), at = in(1), y = out(), axis = g.axis, parallel = parallel_, name = where(op_)](const Tensors& t) {
    try {
      cpu::gather(axis, x.at(t), at.at(t), y.at(t), parallel);
    } catch (const UserError& error) {
      throw UserError(name + ": " + error.what());
    }
  };
}

// Each axis as (repeat, extent), the first of which does not move in x
Run TensorStep::operator()(const operators::Tile& tile) const {
  const View x = in(0), y = out();
  cpu::Extents64 shape, from, to;
  for (std::size_t i = 0; i < tile.repeats.size(); ++i) {
    const std::int64_t extent = x.strided.shape[i];
    shape.insert(shape.end(), {tile.repeats[i], extent});
    from.insert(from.end(), {0, x.strided.strides[i]});
    to.insert(to.end(), {extent * y.strided.strides[i], y.strided.strides[i]});
  }
  return strided_copy(shape, x, from, 0, to);
}

// The six axes (N, C, H, block, W, block) of the spacious side, and the same of the deep side
Run TensorStep::operator()(const operators::DepthToSpace& d) const {
  const View x = in(0), y = out();
  const Strided &space = d.inverse ? x.strided : y.strided, &depth = d.inverse ? y.strided : x.strided;
  const std::int64_t b = d.block, c = space.shape[1];
  const cpu::Extents64 shape{space.shape[0], c, depth.shape[2], b, depth.shape[3], b};
  const auto& s = space.strides;
  const auto& q = depth.strides;
  const cpu::Extents64 spacious{s[0], s[1], s[2] * b, s[2], s[3] * b, s[3]};
  const bool crd = d.column_row_depth;
  const cpu::Extents64 deep{q[0], crd ? q[1] * b * b : q[1], q[2], (crd ? 1 : c) * b * q[1],
                            q[3], (crd ? 1 : c) * q[1]};
  return d.inverse ? strided_copy(shape, x, spacious, 0, deep) : strided_copy(shape, x, deep, 0, spacious);
}

Run TensorStep::operator()(const operators::ShapeOf& s) const {
  const Sizes& x = storage_.shapes[op_.inputs[0]];
  return [extents = Sizes(x.begin() + s.begin, x.begin() + s.end), to = op_.output](const Tensors& t) {
    std::memcpy(const_cast<void*>(t.data(to)), extents.data(), extents.size() * sizeof(std::int64_t));
  };
}

Run TensorStep::operator()(const operators::MatMul&) const {
  const View y = out();
  // the batch's axes aligned, so that all have one rank
  const auto aligned = [&](View v) {
    while (v.strided.shape.size() < y.strided.shape.size()) {
      v.strided.shape.insert(v.strided.shape.begin(), 1);
      v.strided.strides.insert(v.strided.strides.begin(), v.strided.strides[0] * v.strided.shape[1]);
    }
    return v;
  };
  const cpu::BatchedMatmul product(aligned(in(0)).strided, aligned(in(1)).strided, y.strided);
  Run step = [product, a = op_.inputs[0], b = op_.inputs[1], y = op_.output, parallel = parallel_](const Tensors& t) {
    product.run(t.data(a), t.data(b), const_cast<void*>(t.data(y)), parallel, t.scratch());
  };
  step.scratch_bytes = static_cast<std::size_t>(threads_) * product.thread_bytes();
  return step;
}

Run TensorStep::operator()(const operators::Conv3d& c) const {
  const cpu::Volumes volumes{c.stride, c.dilation, c.before, c.after, c.output_pad, c.groups, c.transposed};
  const std::vector<TensorId>& from = op_.inputs;
  const cpu::Conv3d conv(volumes, in(0).strided, in(1).strided, from.size() == 3, out().strided,
                         n_[from[1]].is_constant());
  Run step = [conv, from, y = op_.output, parallel = parallel_](const Tensors& t) {
    conv.run(t.data(from[0]), t.data(from[1]), from.size() == 3 ? t.data(from[2]) : nullptr,
             const_cast<void*>(t.data(y)), parallel, t.scratch());
  };
  step.scratch_bytes = conv.scratch_bytes(threads_);
  return step;
}

Run TensorStep::operator()(const operators::FilterGradient& f) const {
  const cpu::FilterGradient gradient(f, in(0).strided, in(1).strided, out().strided);
  Run step = [gradient, from = op_.inputs, y = op_.output, parallel = parallel_](const Tensors& t) {
    gradient.run(t.data(from[0]), t.data(from[1]), const_cast<void*>(t.data(y)), parallel, t.scratch());
  };
  step.scratch_bytes = gradient.scratch_bytes(threads_);
  return step;
}

Run TensorStep::operator()(const operators::PoolNd& p) const {
  const cpu::WindowNd window{p.kernel, p.stride, p.dilation, p.before, p.after, p.count_pad};
  return [window, p, x = in(0), y = out(), parallel = parallel_](const Tensors& t) {
    if (p.indices) return cpu::max_pool_indices(window, p.column_major, x.at(t), y.at(t), parallel);
    (p.average ? cpu::average_pool_nd : cpu::max_pool_nd)(window, x.at(t), y.at(t), parallel);
  };
}

Run TensorStep::operator()(const operators::Resample& r) const {
  const View x = in(0), y = out();
  std::vector<std::size_t> axes;
  for (std::size_t i = 0; i < x.strided.shape.size(); ++i)
    if (!leaves_axis(r, i, x.strided.shape[i], y.strided.shape[i])) axes.push_back(i);
  // those that get shorter first: what lies between is then no larger than the larger of x and y
  std::stable_partition(axes.begin(), axes.end(),
                        [&](std::size_t i) { return y.strided.shape[i] < x.strided.shape[i]; });
  std::vector<cpu::AxisTaps> taps;
  for (const std::size_t i : axes) taps.push_back(axis_taps(r, i, x.strided.shape[i], y.strided.shape[i]));
  const auto outside = outside_positions(r, x.strided.shape, y.strided.shape);
  const std::size_t bytes = cpu::resample_bytes(axes, taps, x.strided);
  Run step = [axes, taps, x, y, outside, value = static_cast<float>(r.extrapolation),
              parallel = parallel_](const Tensors& t) {
    const Strided to = y.at(t);
    cpu::resample(axes, taps, x.at(t), to, parallel, t.scratch().data);
    fill_outside(outside, value, to);
  };
  step.scratch_bytes = bytes;
  return step;
}

}  // namespace

OperatorStep tensor_step(const Network& network, const Operator& op, const StoragePlan& storage,
                         const cpu::Parallel& parallel, int threads) {
  return std::visit(TensorStep(network, op, storage, parallel, threads), op.kind);
}

}  // namespace unisono::network
