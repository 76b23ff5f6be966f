#include "tensors/windows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "tensors/moves.hpp"
#include "tensors/reduce.hpp"
#include "tensors/text.hpp"
#include "tensors/walk.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

KernelText window_kernel(std::string_view header, std::string_view parameters, const std::string& function) {
  return {fmt::format("// Outputs that are made of several elements.\n#include <unisono/tensor/{}.cuh>\n", header) +
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

// The space over which outputs are walked, which axis of it each of the tensors' axes is that are apart (below 0:
// none), and how many neighbours along the innermost axis a thread has
struct WindowSpace {
  IndexSpace space{};
  std::vector<int> axis_of;
  std::int64_t elements = 1;
};
// The walk's strides are those of x, to and others; it is collapsed but for the axes `apart`, along which outputs are
// made of several elements. Words: whether a thread may have several outputs
plan::Expected<WindowSpace> window_space(Walk& walk, const std::vector<bool>& apart, const StridedTensor& x,
                                         const StridedTensor& to, bool words) {
  WordRule rule{.moved = {0, 1},
                .starts = {x.offset, to.offset},
                .element_bytes = std::max(size_of(x.type.memory), size_of(to.type.memory)),
                .alignment = std::min(x.alignment, to.alignment)};
  Kept kept{.order_of = 1, .axes = apart};
  for (std::size_t i = 0; i < apart.size(); ++i) {
    if (!apart[i]) continue;
    for (const std::size_t t : {0u, 2u})
      if (t < walk.strides.size()) walk.strides[t][i] = 0;
    kept.axes[i] = walk.extents[i] != 1;
    rule.starts.push_back(x.strides[i]);
  }
  if (const auto count = std::ranges::count(apart, true); count > kTensorAxes)
    return plan::because(fmt::format("rank: windows of {} axes; kernels have {}", count, kTensorAxes));
  std::vector<std::size_t> from;
  walk = collapse(walk, kept, &from);
  WindowSpace made;
  made.axis_of.assign(apart.size(), -1);
  for (std::size_t i = 0; i < from.size(); ++i)
    if (kept.axes[from[i]]) made.axis_of[from[i]] = static_cast<int>(i);
  if (words && !kept.axes[from.back()]) made.elements = elements_of_word(walk, rule);
  walk.extents.back() /= made.elements;
  for (Extents& strides : walk.strides) strides.back() *= made.elements;
  auto space = index_space(walk.extents);
  if (!space) return space.refusal();
  made.space = *space;
  return made;
}

std::string by_thread(std::string_view what, std::int64_t outputs = 1) {
  return outputs == 1 ? fmt::format("{}, one output a thread", what)
                      : fmt::format("{}, {} outputs a thread", what, outputs);
}

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
                            by_thread(fmt::format("sums of {} products", p.depth)));
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

plan::Expected<WindowAxis> window_axis(const operators::PoolNd& op, std::size_t i, const StridedTensor& x, int of) {
  const std::int64_t span = (op.kernel[i] - 1) * op.dilation[i];
  for (const std::int64_t number : {span, op.before[i], op.after[i], x.shape[i + 2], op.stride[i]})
    if (const auto fits = place("window", number); !fits) return fits.refusal();
  const auto number = [](std::int64_t n) { return static_cast<int>(n); };
  return WindowAxis{number(op.kernel[i]),
                    number(op.stride[i]),
                    number(op.dilation[i]),
                    number(op.before[i]),
                    number(op.after[i]),
                    number(x.shape[i + 2]),
                    of,
                    0,
                    x.strides[i + 2],
                    numbering(op, x.shape)[i + 2]};
}

// Few windows of many elements, none of which is padding, are reductions by teams of threads: of x with two axes,
// of windows and of taps, for each of its own
bool is_reduction(const operators::PoolNd& op, const StridedTensor& x, const StridedTensor& to) {
  constexpr std::int64_t least_taps = 32, most_windows = 16384;
  for (std::size_t i = 0; i < op.kernel.size(); ++i)
    if (op.before[i] != 0 ||
        (to.shape[i + 2] - 1) * op.stride[i] + (op.kernel[i] - 1) * op.dilation[i] >= x.shape[i + 2])
      return false;
  return !op.indices && element_count(op.kernel) >= least_taps && element_count(to.shape) <= most_windows;
}

plan::Expected<Launches> pool_by_reduction(const operators::PoolNd& op, const StridedTensor& x,
                                           const StridedTensor& to) {
  StridedTensor windows = x;
  operators::Reduce reduction{.op = op.average ? ReduceOp::mean : ReduceOp::max, .axes = {}, .keep = false};
  for (std::size_t i = 0; i < op.kernel.size(); ++i) {
    windows.shape[i + 2] = to.shape[i + 2], windows.strides[i + 2] = op.stride[i] * x.strides[i + 2];
    windows.shape.push_back(op.kernel[i]), windows.strides.push_back(op.dilation[i] * x.strides[i + 2]);
    reduction.axes.push_back(static_cast<int>(x.shape.size() + i));
  }
  return reduce(reduction, windows, to);
}

}  // namespace

plan::Expected<Launches> pool(const operators::PoolNd& op, const StridedTensor& x, const StridedTensor& to) {
  if (element_count(to.shape) == 0) return Launches{};
  if (is_reduction(op, x, to)) return pool_by_reduction(op, x, to);
  const std::size_t rank = to.shape.size();
  Walk walk{to.shape, {x.strides, to.strides, op.indices ? numbering(op, x.shape) : Extents(rank, 0)}};
  std::vector<bool> apart(rank, true);
  apart[0] = apart[1] = false;
  const auto made = window_space(walk, apart, x, to, !op.indices);
  if (!made) return made.refusal();
  WindowParams p{};
  p.space = made->space, p.count_pad = op.count_pad ? 1 : 0;
  set_strides(p.from.strides, walk.strides[0]), set_strides(p.to.strides, walk.strides[1]);
  set_strides(p.places.strides, walk.strides[2]);
  for (std::size_t i = 0; i < op.kernel.size(); ++i) {
    const auto axis = window_axis(op, i, x, made->axis_of[i + 2]);
    if (!axis) return axis.refusal();
    p.window[i] = *axis;
  }
  const std::string_view from_tag = tag_of(x.type.memory);
  const std::string function = op.indices
                                   ? fmt::format("max_pool_places<{}, {}>", from_tag, op.kernel.size())
                                   : fmt::format("{}_pool<{}, {}, {}, {}>", op.average ? "average" : "max", from_tag,
                                                 tag_of(to.type.memory), op.kernel.size(), made->elements);
  Launch launch = launch_of(window_kernel("pools", "WindowParams", function), p.space.count, p,
                            by_thread("windows", made->elements));
  add_address(launch, offsetof(WindowParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(WindowParams, to), writes(1, start_of(to)));
  return Launches{{std::move(launch)}, {}, 0};
}

namespace {

// As many taps for each output of an axis as the most have: where there are fewer, the weightiest are two of half the
// weight
struct EvenTaps {
  std::size_t taps = 0;
  std::vector<int> places;
  std::vector<double> weights;
};
EvenTaps even(const WeightedTaps& given) {
  EvenTaps all{.taps = given.first.empty() ? 0u : 1u, .places = {}, .weights = {}};
  for (std::size_t i = 0; i + 1 < given.first.size(); ++i)
    all.taps = std::max(all.taps, static_cast<std::size_t>(given.first[i + 1] - given.first[i]));
  for (std::size_t i = 0; i + 1 < given.first.size(); ++i) {
    const auto begin = given.first[i], end = given.first[i + 1];
    all.places.insert(all.places.end(), given.places.begin() + begin, given.places.begin() + end);
    all.weights.insert(all.weights.end(), given.weights.begin() + begin, given.weights.begin() + end);
    if (begin == end) all.places.push_back(0), all.weights.push_back(0);
    for (std::size_t k = all.places.size(); k < (i + 1) * all.taps; ++k) {
      const auto first = all.weights.begin() + static_cast<std::ptrdiff_t>(i * all.taps);
      const auto largest =
          std::max_element(first, all.weights.end(), [](double x, double y) { return std::abs(x) < std::abs(y); });
      const double half = *largest /= 2;
      all.places.push_back(all.places[static_cast<std::size_t>(largest - all.weights.begin())]);
      all.weights.push_back(half);
    }
  }
  return all;
}

template <class Number>
std::vector<int> as_words(const std::vector<double>& given) {
  const std::vector<Number> numbers(given.begin(), given.end());
  std::vector<int> words(sizeof(Number) / sizeof(int) * numbers.size());
  std::memcpy(words.data(), numbers.data(), numbers.size() * sizeof(Number));
  return words;
}
// In the type in which kernels add up elements of this one: Stored::Sum
std::vector<int> weights_as_words(const std::vector<double>& weights, const ElementType& type) {
  return size_of(type.memory) == 2 ? as_words<float>(weights) : as_words<double>(weights);
}

// `place`: of its address in the parameters
void add_table(Launches& launches, std::vector<Address>& addresses, std::size_t place, std::vector<int> table) {
  addresses.push_back({.of = Address::Of::table, .number = launches.tables.size(), .place = place});
  launches.tables.push_back(std::move(table));
}

// Whether each output is one element as it is
bool picks(const std::vector<EvenTaps>& axes) {
  return std::ranges::all_of(axes, [](const EvenTaps& axis) {
    return axis.taps <= 1 && std::ranges::all_of(axis.weights, [](double weight) { return weight == 1; });
  });
}

}  // namespace

plan::Expected<Launches> resample(const std::vector<WeightedTaps>& axes, float outside, const StridedTensor& x,
                                  const StridedTensor& to) {
  if (element_count(to.shape) == 0) return Launches{};
  std::vector<EvenTaps> taps;
  std::vector<PlaceTable> places;
  std::vector<bool> apart;
  for (const WeightedTaps& axis : axes) {
    taps.push_back(even(axis));
    places.push_back(taps.back().places), apart.push_back(!places.back().empty());
  }
  if (std::ranges::find(apart, true) == apart.end()) return move(x, to);
  if (x.type == to.type && picks(taps)) return take(x, to, places, filled_with(outside, to.type.memory));
  Walk walk{to.shape, {x.strides, to.strides}};
  const auto made = window_space(walk, apart, x, to, true);
  if (!made) return made.refusal();
  ResampleParams p{};
  p.space = made->space, p.outside = outside;
  set_strides(p.from.strides, walk.strides[0]), set_strides(p.to.strides, walk.strides[1]);
  Launches launches;
  std::vector<Address> addresses;
  std::size_t count = 0;
  bool pairs = true;
  for (std::size_t i = 0; i < taps.size(); ++i) {
    if (!apart[i]) continue;
    p.axis[count] = {nullptr, nullptr, x.strides[i], static_cast<int>(taps[i].taps), made->axis_of[i]};
    pairs = pairs && taps[i].taps == 2;
    const std::size_t at = offsetof(ResampleParams, axis) + count++ * sizeof(ResampleAxis);
    add_table(launches, addresses, at + offsetof(ResampleAxis, places), std::move(taps[i].places));
    add_table(launches, addresses, at + offsetof(ResampleAxis, weights), weights_as_words(taps[i].weights, x.type));
  }
  const std::string function = fmt::format("resample<{}, {}, {}, {}, {}>", tag_of(x.type.memory),
                                           tag_of(to.type.memory), count, pairs ? 2 : 0, made->elements);
  Launch launch = launch_of(window_kernel("resample", "ResampleParams", function), p.space.count, p,
                            by_thread(fmt::format("{} axes resampled", count), made->elements));
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
      launch_of(window_kernel("grid_sample", "GridParams", function), space->count, p, by_thread("samples"));
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
                 -1,
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
                                  const StridedTensor* bias, const StridedTensor& to, std::uint32_t lanes) {
  if (element_count(to.shape) == 0) return Launches{};
  Walk walk{to.shape, {x.strides, to.strides}};
  const auto made = window_space(walk, {false, true, true, true, true}, x, to, false);
  if (!made) return made.refusal();
  auto p = volume_parameters(op, x, filter, to);
  if (!p) return p.refusal();
  p->space = made->space, p->lane_bits = static_cast<u32>(std::bit_width(lanes) - 1);
  set_strides(p->from.strides, walk.strides[0]), set_strides(p->to.strides, walk.strides[1]);
  p->channel_axis = made->axis_of[1];
  for (std::size_t i = 0; i < 3; ++i) p->axis[i].of = made->axis_of[i + 2];
  const std::string function =
      fmt::format("convolve<{}, {}, {}, {}>", tag_of(x.type.memory), tag_of(filter.type.memory),
                  tag_of(bias == nullptr ? DType::f32 : bias->type.memory), tag_of(to.type.memory));
  Launch launch =
      launch_of(window_kernel("volumes", "VolumeParams", function), std::int64_t{p->space.count} * lanes, *p,
                lanes == 1 ? by_thread("convolution") : fmt::format("convolution, {} threads an output", lanes));
  add_address(launch, offsetof(VolumeParams, from), reads(0, start_of(x)));
  add_address(launch, offsetof(VolumeParams, filter), reads(1, start_of(filter)));
  add_address(launch, offsetof(VolumeParams, to), writes(2, start_of(to)));
  if (bias != nullptr) add_address(launch, offsetof(VolumeParams, bias), reads(3, start_of(*bias)));
  return Launches{{std::move(launch)}, {}, 0};
}

}  // namespace unisono::tensors
