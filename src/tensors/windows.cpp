#include "tensors/windows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tensors/text.hpp"
#include "tensors/walk.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

KernelText window_kernel(std::string_view header, std::string_view parameters, const std::string& function) {
  return {fmt::format("// One output a thread.\n#include <unisono/tensor/{}.cuh>\n", header) +
              kernel_text("unisono_outputs", parameters, function),
          "unisono_outputs"};
}

// A number that kernels count places by
plan::Expected<int> place(const char* what, std::int64_t x) {
  constexpr std::int64_t most = 1 << 29;  // sums of three fit
  if (x < -most || x > most)
    return plan::because(fmt::format("size: {} {}; kernels count places to {}", what, x, most));
  return static_cast<int>(x);
}

// An index space whose axes from `first` on stay by themselves, and which of them each axis then is; below 0: none
struct WindowSpace {
  Walk walk;
  IndexSpace space{};
  std::vector<int> windows;
};
plan::Expected<WindowSpace> window_space(std::size_t first, Walk walk, std::size_t order_of) {
  Kept kept{.order_of = order_of, .axes = std::vector<bool>(walk.extents.size(), false)};
  std::fill(kept.axes.begin() + static_cast<std::ptrdiff_t>(std::min(first, kept.axes.size())), kept.axes.end(), true);
  std::vector<std::size_t> axes;
  WindowSpace split;
  split.walk = collapse(walk, kept, &axes);
  auto space = index_space(split.walk.extents);
  if (!space) return space.refusal();
  split.space = *space;
  for (const std::size_t axis : axes) split.windows.push_back(axis >= first ? static_cast<int>(axis - first) : -1);
  return split;
}

template <class Array>
void set_axes(Array& to, const std::vector<int>& axes) {
  std::fill(std::begin(to), std::end(to), -1);
  std::copy(axes.begin(), axes.end(), std::begin(to));
}

std::string one_a_thread(std::string_view what) { return fmt::format("{}, one output a thread", what); }

}  // namespace

plan::Expected<Launches> matmul(const StridedTensor& a, const StridedTensor& b, const StridedTensor& to) {
  if (element_count(to.shape) == 0) return Launches{};
  const std::size_t rank = to.shape.size();
  Extents rows = to.shape, columns = to.shape;  // the shapes over which a and b broadcast
  rows[rank - 1] = a.shape.back(), columns[rank - 2] = a.shape.back();
  const StridedTensor wide_a = broadcast(a, rows), wide_b = broadcast(b, columns);
  Walk walk{to.shape, {wide_a.strides, wide_b.strides, to.strides}};
  ProductParams p{};
  p.a_step = a.strides.back(), p.b_step = b.strides[b.strides.size() - 2];
  walk.strides[0][rank - 1] = walk.strides[1][rank - 2] = 0;
  walk = collapse(walk, {.order_of = 2});
  const auto space = index_space(walk.extents), depth = index_space({a.shape.back()});
  if (!space) return space.refusal();
  if (!depth) return depth.refusal();
  p.space = *space, p.depth = depth->count;
  set_strides(p.a.strides, walk.strides[0]), set_strides(p.b.strides, walk.strides[1]);
  set_strides(p.to.strides, walk.strides[2]);
  const std::string function = fmt::format("product_of_matrices<{}, {}, {}>", tag_of(a.type.memory),
                                           tag_of(b.type.memory), tag_of(to.type.memory));
  Launch launch = launch_of(window_kernel("products", "ProductParams", function), space->count, p,
                            one_a_thread(fmt::format("sums of {} products", p.depth)));
  add_address(launch, offsetof(ProductParams, a), reads(0, start_of(a)));
  add_address(launch, offsetof(ProductParams, b), reads(1, start_of(b)));
  add_address(launch, offsetof(ProductParams, to), writes(2, start_of(to)));
  return Launches{{std::move(launch)}, {}, 0};
}

namespace {

// The strides by which places are numbered: row-major, or with the axes of the window in the other order
Extents numbering(const operators::PoolNd& op, const Extents& shape) {
  Extents strides = row_major_strides(shape);
  if (op.column_major)
    for (std::size_t i = 2; i < shape.size(); ++i) strides[i] = i == 2 ? 1 : strides[i - 1] * shape[i - 1];
  return strides;
}

plan::Expected<WindowAxis> window_axis(const operators::PoolNd& op, std::size_t i, const StridedTensor& x) {
  const std::int64_t span = (op.kernel[i] - 1) * op.dilation[i];
  for (const std::int64_t number : {span, op.before[i], op.after[i], x.shape[i + 2], op.stride[i]})
    if (const auto fits = place("window", number); !fits) return fits.refusal();
  const auto number = [](std::int64_t n) { return static_cast<int>(n); };
  return WindowAxis{number(op.kernel[i]), number(op.stride[i]),         number(op.dilation[i]),
                    number(op.before[i]), number(op.after[i]),          number(x.shape[i + 2]),
                    x.strides[i + 2],     numbering(op, x.shape)[i + 2]};
}

}  // namespace

plan::Expected<Launches> pool(const operators::PoolNd& op, const StridedTensor& x, const StridedTensor& to) {
  if (element_count(to.shape) == 0) return Launches{};
  Walk walk{to.shape, {x.strides, to.strides, numbering(op, x.shape)}};
  for (std::size_t i = 2; i < to.shape.size(); ++i) walk.strides[0][i] = walk.strides[2][i] = 0;
  const auto split = window_space(2, std::move(walk), 1);
  if (!split) return split.refusal();
  WindowParams p{};
  p.space = split->space, p.axes = static_cast<u32>(op.kernel.size()), p.count_pad = op.count_pad ? 1 : 0;
  set_strides(p.from.strides, split->walk.strides[0]), set_strides(p.to.strides, split->walk.strides[1]);
  set_strides(p.places.strides, split->walk.strides[2]);
  set_axes(p.window_of, split->windows);
  for (std::size_t i = 0; i < op.kernel.size(); ++i) {
    const auto axis = window_axis(op, i, x);
    if (!axis) return axis.refusal();
    p.window[i] = *axis;
  }
  const std::string types = fmt::format("{}, {}", tag_of(x.type.memory), tag_of(to.type.memory));
  const std::string function =
      op.average ? fmt::format("average_pool<{}>", types) : fmt::format("max_pool<{}, {}>", types, op.indices);
  Launch launch =
      launch_of(window_kernel("pools", "WindowParams", function), p.space.count, p, one_a_thread("windows"));
  add_address(launch, offsetof(WindowParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(WindowParams, to), writes(1, start_of(to)));
  return Launches{{std::move(launch)}, {}, 0};
}

namespace {

// Numbers of eight bytes as a table of words
std::vector<int> as_words(const std::vector<double>& numbers) {
  std::vector<int> words(2 * numbers.size());
  std::memcpy(words.data(), numbers.data(), numbers.size() * sizeof(double));
  return words;
}

}  // namespace

plan::Expected<Launches> resample(const std::vector<WeightedTaps>& axes, float outside, const StridedTensor& x,
                                  const StridedTensor& to) {
  if (element_count(to.shape) == 0) return Launches{};
  Walk walk{to.shape, {x.strides, to.strides}};
  Kept kept{.order_of = 1, .axes = {}};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    kept.axes.push_back(!axes[i].first.empty());
    if (kept.axes[i]) walk.strides[0][i] = 0;
  }
  std::vector<std::size_t> from;
  walk = collapse(walk, kept, &from);
  const auto space = index_space(walk.extents);
  if (!space) return space.refusal();
  ResampleParams p{};
  p.space = *space, p.outside = outside;
  set_strides(p.from.strides, walk.strides[0]), set_strides(p.to.strides, walk.strides[1]);
  set_axes(p.resampled, {});
  Launches launches;
  std::vector<Address> addresses;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] >= axes.size() || axes[from[i]].first.empty()) continue;
    const WeightedTaps& taps = axes[from[i]];
    p.axis[p.axes].step = x.strides[from[i]], p.resampled[i] = static_cast<int>(p.axes);
    std::size_t at = offsetof(ResampleParams, axis) + p.axes++ * sizeof(ResampleAxis);
    for (std::vector<int> table : {taps.first, taps.places, as_words(taps.weights)}) {
      addresses.push_back({.of = Address::Of::table, .number = launches.tables.size(), .place = at});
      launches.tables.push_back(std::move(table)), at += sizeof(void*);
    }
  }
  const std::string function = fmt::format("resample<{}, {}>", tag_of(x.type.memory), tag_of(to.type.memory));
  Launch launch = launch_of(window_kernel("resample", "ResampleParams", function), space->count, p,
                            one_a_thread(fmt::format("{} axes resampled", p.axes)));
  launch.addresses = std::move(addresses);
  add_address(launch, offsetof(ResampleParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(ResampleParams, to), writes(1, start_of(to)));
  launches.list.push_back(std::move(launch));
  return launches;
}

plan::Expected<Launches> grid_sample(const operators::GridSample& op, const StridedTensor& x, const StridedTensor& grid,
                                     const StridedTensor& to) {
  if (element_count(to.shape) == 0) return Launches{};
  const std::size_t axes = x.shape.size() - 2;
  GridParams p{};
  Walk walk{to.shape, {x.strides, grid.strides, to.strides}};
  walk.strides[1].pop_back(), walk.strides[1].insert(walk.strides[1].begin() + 1, 0);
  for (std::size_t i = 0; i < axes; ++i) {
    const auto extent = place("extent", x.shape[i + 2]);
    if (!extent) return extent.refusal();
    p.extents[i] = *extent, p.steps[i] = x.strides[i + 2], walk.strides[0][i + 2] = 0;
  }
  walk = collapse(walk, {.order_of = 2});
  const auto space = index_space(walk.extents);
  if (!space) return space.refusal();
  p.space = *space, p.axes = static_cast<int>(axes), p.grid_step = grid.strides.back();
  set_strides(p.from.strides, walk.strides[0]), set_strides(p.grid.strides, walk.strides[1]);
  set_strides(p.to.strides, walk.strides[2]);
  p.nearest = op.mode == GridMode::nearest, p.cubic = op.mode == GridMode::cubic, p.align_corners = op.align_corners;
  p.reflection = op.padding == GridPadding::reflection, p.zeros = op.padding == GridPadding::zeros;
  const std::string function =
      fmt::format("grid_sample<{}, {}, {}>", tag_of(x.type.memory), tag_of(grid.type.memory), tag_of(to.type.memory));
  Launch launch =
      launch_of(window_kernel("grid_sample", "GridParams", function), space->count, p, one_a_thread("samples"));
  add_address(launch, offsetof(GridParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(GridParams, grid), reads(1, start_of(grid)));
  add_address(launch, offsetof(GridParams, to), writes(2, start_of(to)));
  return Launches{{std::move(launch)}, {}, 0};
}

namespace {

// What the axes of a volume are to a convolution, and how filters lie
plan::Expected<VolumeParams> volume_parameters(const operators::Conv3d& op, const StridedTensor& x,
                                               const StridedTensor& filter, const StridedTensor& to) {
  VolumeParams p{};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t span = (filter.shape[i + 2] - 1) * op.dilation[i];
    for (const std::int64_t n : {span, op.before[i], op.stride[i], x.shape[i + 2], to.shape[i + 2] * op.stride[i]})
      if (const auto fits = place("window", n); !fits) return fits.refusal();
    p.axis[i] = {static_cast<int>(filter.shape[i + 2]),
                 static_cast<int>(op.stride[i]),
                 static_cast<int>(op.dilation[i]),
                 static_cast<int>(op.before[i]),
                 static_cast<int>(x.shape[i + 2]),
                 0,
                 x.strides[i + 2],
                 filter.strides[i + 2]};
  }
  const std::int64_t channels = x.shape[1] / op.groups, outputs = to.shape[1] / op.groups;
  p.group_channels = static_cast<u32>(channels), p.group_outputs = static_cast<u32>(outputs);
  p.from_channel = x.strides[1], p.from_group = channels * x.strides[1];
  p.transposed = op.transposed ? 1 : 0;
  p.filter_channel = filter.strides[op.transposed ? 0 : 1], p.filter_output = filter.strides[op.transposed ? 1 : 0];
  p.filter_group = filter.strides[0] * (op.transposed ? channels : outputs);
  return p;
}

}  // namespace

plan::Expected<Launches> convolve(const operators::Conv3d& op, const StridedTensor& x, const StridedTensor& filter,
                                  const StridedTensor* bias, const StridedTensor& to) {
  if (element_count(to.shape) == 0) return Launches{};
  Walk walk{to.shape, {x.strides, to.strides}};
  for (std::size_t i = 1; i < 5; ++i) walk.strides[0][i] = 0;
  const auto split = window_space(1, std::move(walk), 1);  // the channels, then the volume's axes
  if (!split) return split.refusal();
  auto p = volume_parameters(op, x, filter, to);
  if (!p) return p.refusal();
  p->space = split->space;
  set_strides(p->from.strides, split->walk.strides[0]), set_strides(p->to.strides, split->walk.strides[1]);
  set_axes(p->axis_of, {});
  for (std::size_t i = 0; i < split->windows.size(); ++i) {
    const int axis = split->windows[i];
    if (axis == 0) p->channel_axis = static_cast<int>(i);
    if (axis > 0) p->axis_of[i] = axis - 1;
  }
  const std::string function =
      fmt::format("convolve<{}, {}, {}, {}>", tag_of(x.type.memory), tag_of(filter.type.memory),
                  tag_of(bias == nullptr ? DType::f32 : bias->type.memory), tag_of(to.type.memory));
  Launch launch =
      launch_of(window_kernel("volumes", "VolumeParams", function), p->space.count, *p, one_a_thread("convolution"));
  add_address(launch, offsetof(VolumeParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(VolumeParams, filter), reads(1, start_of(filter)));
  add_address(launch, offsetof(VolumeParams, to), writes(2, start_of(to)));
  if (bias != nullptr) add_address(launch, offsetof(VolumeParams, bias), reads(3, start_of(*bias)));
  return Launches{{std::move(launch)}, {}, 0};
}

}  // namespace unisono::tensors
