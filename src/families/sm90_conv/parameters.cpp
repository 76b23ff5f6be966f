#include "families/sm90_conv/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "families/sm90/fetchable.hpp"
#include "families/sm90/parameters.hpp"
#include "families/sm90_conv/planes.hpp"
#include "families/sm90_conv/tensor_maps.hpp"
#include "plan/refusal.hpp"

namespace unisono::families::sm90_conv {
namespace {

constexpr std::size_t at_image = offsetof(ConvParams, activation), at_filter = offsetof(ConvParams, filter),
                      at_output = offsetof(ConvParams, output), at_side = offsetof(ConvParams, side);

/// The i-th map behind ConvParams.
std::size_t further(std::size_t i) { return params_layout::map_offset(i); }

// Elements from one to the next along each axis
struct Steps {
  std::int64_t image, h, w, c;
};

Steps steps_of(const plan::ConvTask& t) {
  const Conv2d& c = t.conv;
  const std::int64_t image = c.h * c.w * c.c;
  if (t.columns_a || c.layout == Layout::nchw) return {image, c.w, 1, c.h * c.w};
  return {image, c.w * c.c, c.c, 1};
}

int narrow(std::int64_t x) { return static_cast<int>(x); }

bool windows_by_lines(const ConvConfig& c) { return c.window() && !c.window()->by_pixels(); }
bool stores_plainly(const ConvConfig& c) { return !by_tma(c.features.stores); }

class Filling {
 public:
  Filling(Parameter& to, const plan::ConvTask& task, const ConvPlan& plan, const plan::Epilogue& epilogue,
          const codegen::Kernel& kernel, const Tensors& at)
      : to_(to), task_(task), plan_(plan), epilogue_(epilogue), kernel_(kernel), at_(at) {}
  void run();

 private:
  void map(std::size_t to, const MapShape& shape, const Address& base, const char* what, std::size_t ahead = 0) {
    to_.put_map(to, shape, base, plan_.config.element, what, ahead);
  }
  /// One of the structs that may stand where `member` would have a map.
  template <class T, class... Instead>
  void instead(MapOr<Instead...> ConvParams::*member, const T& what, const Address& base) {
    static_assert((std::is_same_v<T, Instead> || ...), "what its reader casts to");
    to_.put_struct(to_.offset_of(&(to_.bytes.at<ConvParams>().*member)), what, base);
  }
  void check_pitches() const;
  void operands();
  void outputs();
  void phases(std::size_t first, std::size_t place, const MapShape& whole, const Address& base, const char* what);
  void phase(std::size_t to, int which, const MapShape& whole, const Address& base, const char* what);
  void resampled(const MapShape& output);
  void fetched(const MapShape& output);

  Parameter& to_;
  const plan::ConvTask& task_;
  const ConvPlan& plan_;
  const plan::Epilogue& epilogue_;
  const codegen::Kernel& kernel_;
  const Tensors& at_;
};

// One of the four phases of an output
void Filling::phase(std::size_t to, int which, const MapShape& whole, const Address& base, const char* what) {
  map(to, with_phase(whole, which), base, what, phase_offset(whole, which));
}

// An output by its phases: the first in its place, the others behind ConvParams
void Filling::phases(std::size_t first, std::size_t place, const MapShape& whole, const Address& base,
                     const char* what) {
  for (int i = 0; i < 4; ++i)
    phase(i == 0 ? first : further(place + static_cast<std::size_t>(i) - 1), i, whole, base, what);
}

// The four phases of the upsampled tensor; with nothing else to write the first is the output itself
void Filling::resampled(const MapShape& output) {
  const plan::Resampling& r = plan_.config.features.resampling;
  std::size_t next = 0;
  for (int i = 0; r.upsampled && i < 4; ++i)
    phase(r.only && i == 0 ? at_output : further(next++), i, doubled(output, at_.upsampled_pitch), at_.upsampled,
          "the upsampled output");
  if (!r.pooled) return;
  const auto pitch = at_.pooled_pitch == 0 ? output.extents[0] : static_cast<std::uint64_t>(at_.pooled_pitch);
  to_.put_struct(further(next), PooledOutput{const_cast<void*>(at_.pooled.data), pitch}, at_.pooled);
}

// The operands that TMA loads, behind the maps of what is resampled
void Filling::fetched(const MapShape& output) {
  const auto first = static_cast<std::size_t>(plan_.config.resampled_maps());
  const auto count = static_cast<std::size_t>(plan_.config.features.fetch.value_or(0));
  const std::vector<ValueId> operands = sm90::fetchable_operands(epilogue_);
  for (std::size_t i = 0; i < std::min(count, operands.size()); ++i) {
    const std::string& name = epilogue_.graph[operands[i]].attr.name;
    const auto field = std::ranges::find_if(kernel_.fields, [&](const codegen::Field& f) {
      return f.kind == codegen::Field::Kind::operand_pointer && f.name == name;
    });
    const auto place = static_cast<std::size_t>(field - kernel_.fields.begin());
    const Address operand{reinterpret_cast<const void*>(at_.fields.bits.at(place)), at_.fields.slots.at(place)};
    map(further(first + i), output, operand, "an operand [m,n]");
  }
}

void Filling::check_pitches() const {
  const ConvConfig& c = plan_.config;
  const bool image = (c.gathered() || windows_by_lines(c) || task_.conv.layout == Layout::nchw) &&
                     at_.activation_pitch != 0,
             output = (c.features.stores != sm90::Stores::tma || epilogue_.wide_main()) && at_.output_pitch != 0;
  if (!image && !output) return;
  throw plan::Refused(plan::because(fmt::format(
      "the {} was given pixels {} elements apart, and {}: make a dense copy", output ? "output" : "image",
      output ? at_.output_pitch : at_.activation_pitch,
      epilogue_.wide_main() && !image ? "this kernel, which stores f32 from registers, takes dense tensors"
      : windows_by_lines(c) ? "this kernel, which makes an im2col matrix of whole image rows, takes dense tensors"
                            : "this kernel, which goes without TMA there, takes dense tensors")));
}

void Filling::operands() {
  const ConvConfig& c = plan_.config;
  if (c.operands.converted) return fill_converted(to_, task_, plan_, at_);
  MapShapes shapes = map_shapes(task_, plan_);
  const bool whole_lines = c.window() && c.window()->by_lines() && at_.activation_pitch == 0;
  if (c.window()) shapes.activation = window_shape(task_.conv, c, whole_lines);
  const auto apart = [](MapShape& m, std::int64_t step) {  // images, and products' filters, are the last extent
    if (step != 0) m.strides[static_cast<std::size_t>(m.rank) - 2] = static_cast<std::uint64_t>(step) * m.element_bytes;
  };
  apart(shapes.activation, at_.step_a), apart(shapes.filter, at_.step_b);
  if (at_.filter_pitch != 0)  // (k, 1, n): neither taps nor a batch
    shapes.filter.strides = {static_cast<std::uint64_t>(at_.filter_pitch) * shapes.filter.element_bytes,
                             static_cast<std::uint64_t>(at_.filter_pitch) * shapes.filter.element_bytes};
  if (c.gathered())
    instead(&ConvParams::activation, gathered_image(task_, at_.activation, at_.step_a), at_.activation);
  else
    map(at_image, with_pitch(shapes.activation, at_.activation_pitch), at_.activation, "the image");
  if (c.window())
    instead(&ConvParams::filter, Im2colFilter{at_.filter, whole_lines, 0}, at_.filter);
  else if (c.operands.grouped())
    instead(&ConvParams::filter, GroupFilters{at_.filter.data}, at_.filter);
  else if (c.gathered() && c.gathered()->filters)
    instead(&ConvParams::filter, gathered_filter(task_, at_.filter, at_.step_b), at_.filter);
  else
    map(at_filter, shapes.filter, at_.filter, "the filter");
  if (c.operands.products > 1)
    map(further(static_cast<std::size_t>(c.further_maps()) - 1), shapes.filter, at_.filter1, "the second filter");
}

void Filling::outputs() {
  if (stores_plainly(plan_.config)) {
    instead(&ConvParams::output, PlainOutput{const_cast<void*>(at_.output.data)}, at_.output);
    instead(&ConvParams::side, PlainOutput{const_cast<void*>(at_.side.data)}, at_.side);
    return;
  }
  const MapShape dense = map_shapes(task_, plan_).output,
                 output = epilogue_.wide_main() ? halves(dense) : with_pitch(dense, at_.output_pitch);
  if (plan_.config.by_parity()) {
    if (at_.output.data != nullptr) phases(at_output, 0, output, at_.output, "the output");
    if (at_.side.data != nullptr) phases(at_side, 3, dense, at_.side, "the second output");
    return;
  }
  if (at_.output.data != nullptr) map(at_output, output, at_.output, "the output");
  if (at_.side.data != nullptr) map(at_side, dense, at_.side, "the second output");
  resampled(dense);
  fetched(dense);
}

void Filling::run() {
  check_pitches();
  operands();
  outputs();
  if (at_.moments.data != nullptr) {
    ExchangeParams& norm = to_.bytes.at<ConvParams>().norm;
    norm.slots_per_image = plan_.moments.slots;
    to_.put_address(to_.offset_of(&norm.slots), at_.moments);
  }
  Tensors at = at_;
  if (epilogue_.wide_main()) at.side = at_.output;  // the second store goes by its map alone
  sm90::put_common(to_, at, maps_between(plan_.config));
}

}  // namespace

GatheredImage gathered_image(const plan::ConvTask& t, const void* memory, std::int64_t step) {
  const Conv2d& c = t.conv;
  const Steps steps = steps_of(t);
  GatheredImage g{};
  g.memory = memory;
  g.step_image = static_cast<u64>(step != 0 ? step : steps.image);
  g.step_h = narrow(steps.h), g.step_w = narrow(steps.w), g.step_c = narrow(steps.c);
  g.height = narrow(c.h), g.width = narrow(c.w), g.channels = narrow(c.c / c.groups);
  g.taps_w = narrow(c.s), g.depth = narrow(c.r * c.s * g.channels);
  g.group_filters = narrow(c.k / c.groups);
  return g;
}

GatheredFilter gathered_filter(const plan::ConvTask& t, const void* memory, std::int64_t step) {
  const Conv2d& c = t.conv;
  const std::int64_t taps = c.r * c.s, channels = c.c / c.groups;
  const bool planes = c.layout == Layout::nchw;
  GatheredFilter g{};
  g.memory = memory;
  g.channels = narrow(channels);
  g.step_image = t.batched ? static_cast<u64>(step != 0 ? step : c.k * channels) : 0;
  if (t.transposed) {  // (C, R, S, K/groups), or planes (C, K/groups, R, S)
    const std::int64_t filters = c.k / c.groups;
    g.step_filter = narrow(planes ? taps : 1), g.step_tap = narrow(planes ? 1 : filters);
    g.step_c = narrow(filters * taps);
    g.step_group = narrow((channels - 1) * filters * taps + (planes ? 0 : filters * (taps - 1)));
  } else if (t.columns_b) {
    g.step_filter = 1, g.step_c = narrow(c.k);
  } else {  // (K, R, S, C), or planes (K, C, R, S)
    g.step_filter = narrow(taps * channels), g.step_tap = narrow(planes ? 1 : channels),
    g.step_c = narrow(planes ? taps : 1);
  }
  return g;
}

std::size_t maps_between(const ConvConfig& c) { return static_cast<std::size_t>(c.further_maps()); }

ConvGeometry geometry(const plan::ConvTask& task, const ConvPlan& p) {
  const Conv2d& c = task.conv;
  ConvGeometry g = sm90::common_geometry(task);
  g.images = p.images, g.rows = p.rows;
  g.tiles_m = p.tiles_m, g.tiles_n = p.tiles_n, g.tiles = p.tiles;
  g.tiles_w = p.tiles_w;
  const bool gathers = p.config.filled_by_warps();  // all taps and channels in one k
  g.taps_h = gathers ? 1 : narrow(c.r), g.taps_w = gathers ? 1 : narrow(c.s), g.channel_blocks = p.channel_blocks;
  g.splits = p.splits;
  set_divisors(g, p.config.schedule.group);
  if (p.config.halo() && task.volume) {  // as ConvGeometry says of halo tiles of volumes
    g.taps_h = g.plane_taps_h, g.plane_taps_h = g.channel_blocks / narrow(task.volume->t);
    g.by_plane_height = divisor(static_cast<u64>((g.plane_height + p.config.tile.m / 8 - 1) / (p.config.tile.m / 8)));
  }
  return g;
}

void fill(Parameter& to, const plan::ConvTask& task, const ConvPlan& plan, const plan::Epilogue& epilogue,
          const codegen::Kernel& kernel, const Tensors& tensors) {
  Filling(to, task, plan, epilogue, kernel, tensors).run();
}

void place_workspace(ConvParams& params, const ConvPlan& plan, const plan::Epilogue& epilogue, std::uint64_t base) {
  const Workspace& w = plan.workspace;
  const bool exchanges = w.bytes > 0;
  if (const auto of = epilogue.norm() ? epilogue.normalised() : epilogue.exchanged()) {
    const std::int64_t width = of->group_channels;
    params.norm = {.slots = exchanges ? reinterpret_cast<Entry*>(base + w.slots) : nullptr,
                   .segments = exchanges ? reinterpret_cast<Entry*>(base + w.segments) : nullptr,
                   .slots_per_image = plan.slots_per_image,
                   .segment_slots = plan.segment_slots,
                   .segments_per_image = plan.segments_per_image,
                   .group_channels = static_cast<int>(width),
                   .by_group_channels = divisor(static_cast<u64>(width)),
                   .by_common_channels = divisor(std::min<u64>(std::lcm(width, plan.config.tile.n), INT32_MAX))};
  }
  if (!exchanges) return;
  if (epilogue.general() || !epilogue.folds().empty() || plan.config.rows_meet()) {
    const auto floats = [&](std::size_t at) { return reinterpret_cast<float*>(base + at); };
    params.folds = {floats(w.folds), floats(w.fold_results), floats(w.fold_rows),
                    reinterpret_cast<u32*>(base + w.fold_counters)};
  }
  const auto ctas = static_cast<u32>(plan.ctas);
  params.launch = {reinterpret_cast<u32*>(base + w.exits), ctas * kEpochs - 1, divisor(ctas), 0};
  if (plan.config.spills()) params.split = {reinterpret_cast<void*>(base + w.partials), nullptr};
  if (plan.config.schedule.split)
    params.split = {reinterpret_cast<void*>(base + w.partials), reinterpret_cast<u32*>(base + w.flags)};
}

}  // namespace unisono::families::sm90_conv
