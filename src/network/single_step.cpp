/// Operators that run by themselves: pooling, resampling and copies.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "network/dim.hpp"
#include "network/names.hpp"
#include "network/resize_tables.hpp"
#include "network/space.hpp"
#include "network/steps.hpp"
#include "runtime/cpu/ops/copy.hpp"
#include "runtime/cpu/ops/pool.hpp"
#include "runtime/cpu/ops/take.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

using Run = OperatorStep;

class SingleStep {
 public:
  SingleStep(const FusedNetwork& fused, const Operator& op, const StoragePlan& storage, const cpu::Parallel& parallel,
             int threads)
      : f_(fused), op_(op), storage_(storage), parallel_(parallel), threads_(threads) {}

  Run operator()(const operators::Pool2d& p) const;
  Run operator()(const operators::GlobalAveragePool&) const;
  Run operator()(const operators::Resize& r) const;
  Run operator()(const operators::Concat& c) const;
  Run operator()(const operators::Pad& p) const;
  Run operator()(const operators::Reshape&) const { return reshape(); }
  Run operator()(const operators::PixelReshape&) const { return reshape(); }
  Run operator()(const operators::Flatten&) const { return reshape(); }
  Run operator()(const operators::ReshapeLike&) const { return reshape(); }
  Run operator()(const operators::Transpose& t) const;
  Run operator()(const operators::Expand&) const;
  Run operator()(const operators::Identity&) const {
    return copy(sizes(out()), in(0), strides(in(0)), 0, strides(out()), 0);
  }
  Run operator()(const auto&) const { return tensor_step(f_.network, op_, storage_, parallel_, threads_); }

 private:
  TensorId in(std::size_t i) const { return op_.inputs[i]; }
  TensorId out() const { return op_.output; }
  const Sizes& sizes(TensorId id) const { return storage_.shapes[id]; }
  Sizes strides(TensorId id) const { return logical_strides(sizes(id), storage_.memory[id].row_stride); }
  template <class T>
  cpu::Image<T> image(TensorId id) const {
    const Sizes& s = sizes(id);
    return {nullptr, s[0], s[2], s[3], s[1], storage_.memory[id].row_stride};
  }
  Run copy(const Sizes& shape, TensorId from, const Sizes& from_strides, std::int64_t from_offset,
           const Sizes& to_strides, std::int64_t to_offset) const {
    const std::size_t size = element_size();
    const auto bytes = static_cast<std::int64_t>(size);
    return [=, to = out(), parallel = parallel_](const Tensors& t) {
      const auto* source = static_cast<const char*>(t.data(from)) + from_offset * bytes;
      auto* target = static_cast<char*>(const_cast<void*>(t.data(to))) + to_offset * bytes;
      cpu::copy_elements(size, shape, source, from_strides, target, to_strides, parallel);
    };
  }
  Run reshape() const;
  Run pad_by_table(const operators::Pad& p) const;
  std::size_t element_size() const { return size_of(f_.network[out()].dtype); }

  const FusedNetwork& f_;
  const Operator& op_;
  const StoragePlan& storage_;
  const cpu::Parallel& parallel_;
  int threads_;
};

Run SingleStep::operator()(const operators::Pool2d& p) const {
  const cpu::PoolWindow window{.kernel = {p.kernel.h, p.kernel.w},
                               .stride = {p.stride.h, p.stride.w},
                               .dilation = {p.dilation.h, p.dilation.w},
                               .pad = {p.pad.top, p.pad.left, p.pad.bottom, p.pad.right},
                               .count_pad = p.count_pad};
  return [window, average = p.average, x = image<const float>(in(0)), y = image<float>(out()), from = in(0), to = out(),
          parallel = parallel_](const Tensors& t) {
    auto source = x;
    auto target = y;
    source.data = t.read(from);
    target.data = t.write(to);
    (average ? cpu::average_pool : cpu::max_pool)(window, source, target, parallel);
  };
}

Run SingleStep::operator()(const operators::GlobalAveragePool&) const {
  return [x = image<const float>(in(0)), y = image<float>(out()), from = in(0), to = out(),
          parallel = parallel_](const Tensors& t) {
    auto source = x;
    auto target = y;
    source.data = t.read(from);
    target.data = t.write(to);
    cpu::global_average_pool(source, target, parallel);
  };
}

Run SingleStep::operator()(const operators::Resize& r) const {
  const Sizes &x = sizes(in(0)), &y = sizes(out());
  return [rows = axis_table(r, x[2], y[2], r.height != 0 ? 0 : r.scale_h),
          columns = axis_table(r, x[3], y[3], r.width != 0 ? 0 : r.scale_w), from = in(0), to = out(),
          source_view = image<const float>(in(0)), target_view = image<float>(out()),
          parallel = parallel_](const Tensors& t) {
    auto source = source_view;
    auto target = target_view;
    source.data = t.read(from);
    target.data = t.write(to);
    cpu::resize(rows, columns, source, target, parallel);
  };
}

// Those inputs that are not written in place
Run SingleStep::operator()(const operators::Concat& c) const {
  std::vector<Run> parts;
  std::int64_t offset = 0;
  const auto axis = static_cast<std::size_t>(c.axis);
  const Sizes to = strides(out());
  for (const TensorId id : op_.inputs) {
    const auto& place = f_.placement[id];
    if (!place || place->base != out()) parts.push_back(copy(sizes(id), id, strides(id), 0, to, offset * to[axis]));
    offset += sizes(id)[axis];
  }
  return [parts = std::move(parts)](const Tensors& t) {
    for (const Run& part : parts) part.run(t);
  };
}

// The index along an axis of `extent` elements of what stands at `i`, which may lie outside
std::int64_t repeated(PadMode mode, std::int64_t i, std::int64_t extent) {
  if (mode == PadMode::edge) return std::clamp<std::int64_t>(i, 0, extent - 1);
  const std::int64_t period = mode == PadMode::wrap ? extent : std::max<std::int64_t>(2 * (extent - 1), 1);
  const std::int64_t k = ((i % period) + period) % period;
  return k < extent ? k : period - k;
}

Run SingleStep::pad_by_table(const operators::Pad& p) const {
  const Sizes &x = sizes(in(0)), &y = sizes(out());
  std::vector<std::vector<std::int64_t>> tables(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::int64_t k = 0; k < y[i]; ++k) tables[i].push_back(repeated(p.mode, k - p.before[i], x[i]));
  const DType dtype = f_.network[out()].dtype;
  return [tables, from = in(0), to = out(), source = cpu::Strided{nullptr, dtype, x, strides(in(0))},
          target = cpu::Strided{nullptr, dtype, y, strides(out())}, parallel = parallel_](const Tensors& t) {
    cpu::Strided a = source, b = target;
    a.data = const_cast<void*>(t.data(from));
    b.data = const_cast<void*>(t.data(to));
    cpu::take(tables, a, b, parallel);
  };
}

// A number as an element of a type, aligned as any of them
struct alignas(8) Element {
  std::array<std::byte, 8> bytes{};
};
Element element_of(double value, DType dtype) {
  Element e;
  cpu::with_type(dtype, [&]<class T>() {
    const T x = static_cast<T>(value);
    std::memcpy(e.bytes.data(), &x, sizeof(T));
  });
  return e;
}

Run SingleStep::operator()(const operators::Pad& p) const {
  if (p.mode != PadMode::constant) return pad_by_table(p);
  const Sizes from = strides(in(0)), to = strides(out());
  Sizes inner = sizes(in(0));
  std::int64_t from_offset = 0, to_offset = 0;
  for (std::size_t i = 0; i < inner.size(); ++i) {
    inner[i] += std::min<std::int64_t>(p.before[i], 0) + std::min<std::int64_t>(p.after[i], 0);
    from_offset -= std::min<std::int64_t>(p.before[i], 0) * from[i];
    to_offset += std::max<std::int64_t>(p.before[i], 0) * to[i];
  }
  return [shape = sizes(out()), to, repeated = Sizes(to.size(), 0), target = out(),
          value = element_of(p.value, f_.network[out()].dtype), size = element_size(), parallel = parallel_,
          body = copy(inner, in(0), from, from_offset, to, to_offset)](const Tensors& t) {
    cpu::copy_elements(size, shape, value.bytes.data(), repeated, const_cast<void*>(t.data(target)), to, parallel);
    body.run(t);
  };
}

Run SingleStep::operator()(const operators::Transpose& order) const {
  const Sizes from = strides(in(0));
  Sizes permuted;
  for (const int i : order.order) permuted.push_back(from[static_cast<std::size_t>(i)]);
  return copy(sizes(out()), in(0), permuted, 0, strides(out()), 0);
}

Run SingleStep::operator()(const operators::Expand&) const {
  const Sizes &x = sizes(in(0)), &y = sizes(out());
  const Sizes own = strides(in(0));
  Sizes from(y.size(), 0);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != 1) from[y.size() - x.size() + i] = own[i];
  return copy(y, in(0), from, 0, strides(out()), 0);
}

Run SingleStep::reshape() const {
  const TensorId from = in(0), to = out();
  const bool pixels = walks_pixels(op_.kind);
  // both lie in memory in the order in which they are walked
  if (storage_.memory[from].dense && storage_.memory[to].dense &&
      (pixels || (logical_order(to_shape(sizes(from))) && logical_order(to_shape(sizes(to)))))) {
    const std::int64_t count = element_count(sizes(from));
    return copy({count}, from, {1}, 0, {1}, 0);
  }
  const auto order = [&](const Sizes& of_axes) { return pixels ? pixel_order(of_axes) : of_axes; };
  return
      [size = element_size(), from, to, from_sizes = order(sizes(from)), to_sizes = order(sizes(to)),
       from_strides = order(strides(from)), to_strides = order(strides(to)), parallel = parallel_](const Tensors& t) {
        cpu::copy_reshaped(size, from_sizes, t.data(from), from_strides, to_sizes, t.write(to), to_strides, parallel);
      };
}

}  // namespace

OperatorStep single_step(const FusedNetwork& fused, const Operator& op, const StoragePlan& storage,
                         const cpu::Parallel& parallel, int threads) {
  return std::visit(SingleStep(fused, op, storage, parallel, threads), op.kind);
}

}  // namespace unisono::network
