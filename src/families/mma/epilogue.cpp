#include "families/mma/epilogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "unisono/params/fragment_layout.cuh"
#include "unisono/params/params.cuh"

namespace unisono::families::mma {
namespace {

constexpr int floats_of_moments = 3;  // exchange/moments.cuh
constexpr int messages_at_once = 8 * 128,
              largest_segment = 128;  // that a warpgroup reads; exchange/statistics_exchange.cuh

/// In a message of CTAs: a value's moments, or a float for each reduction.
int floats_exchanged(const plan::VisitorShape& v) { return v.exchanged > 0 ? v.exchanged : floats_of_moments; }

}  // namespace

std::vector<std::string> refuse_epilogue(const plan::Epilogue& e, const plan::ConvTask& task) {
  std::vector<std::string> reasons;
  const auto refuse = [&](const char* what, const char* help) {
    reasons.push_back(fmt::format("epilogue: {}, which the kernels by mma.sync do not have. {}", what, help));
  };
  const bool any = e.results == plan::Results::any;
  if (e.exchanged() && e.exchanged()->batch && (e.per_image() || task.batched))
    refuse("statistics over the pixels of all images together with values of an image",
           "Take them for each image (per=b)");
  if (e.resampled.any() && (task.conv.k % 8 != 0 || e.wide_main()))
    refuse("pooled or upsampled stores of f32, or of channels that are no multiple of 8",
           "Store the whole result, and resample it afterwards");
  if (e.resampled.any() && (task.transposed || task.volume))
    refuse("pooled or upsampled stores of a transposed convolution or of volumes",
           "Store the result, and resample it afterwards");
  if (e.moments.channels > 0) refuse("stored statistics", "Reduce the stored result");
  if (any && task.conv.k % 2 != 0) refuse("results of rows with an odd number of channels", "Pad the channels");
  return reasons;
}

std::vector<Mode> modes_of(const plan::Epilogue& e) {
  if (e.general()) return {Mode::general};
  if (e.normalises_rows()) return {Mode::rows};
  return e.exchanged() ? std::vector{Mode::resident, Mode::streamed} : std::vector{Mode::none};
}

void choose_waits(MmaPlan& p, const plan::Epilogue& e, const plan::VisitorShape& v) {
  Config& c = p.config;
  if (c.mode == Mode::general) {
    c.wide = e.reduces_rows() && p.tiles_n > 1;
    c.meets = (c.wide && e.rows_wait()) || v.returns;
    if (c.meets) p.at_once = v.returns ? p.tiles_n * p.tiles_m * (v.returns_all ? p.images : 1) : p.tiles_n;
  } else if (c.mode == Mode::rows) {
    c.wide = c.meets = p.tiles_n > 1, p.at_once = p.tiles_n;
  } else if (exchanges(c.mode)) {
    if (c.mode == Mode::resident) p.at_once = p.tiles_n * p.tiles_m;
    c.unit = static_cast<int>(std::gcd(e.exchanged()->group_channels, std::int64_t{c.tiling.n}));
    if (std::int64_t{p.slots()} * (c.tiling.n / c.unit) > messages_at_once) {
      const int segments = (p.slots() + largest_segment - 1) / largest_segment;
      p.segment_slots = (p.slots() + segments - 1) / segments;
    }
  }
  p.cooperative = c.meets || exchanges(c.mode) || c.parts > 1;
}

void choose_memory(MmaPlan& p, const plan::Epilogue& e, const plan::VisitorShape& v, int in_flight) {
  Config& c = p.config;
  if (c.mode != Mode::general || !c.meets || p.at_once <= in_flight) return;
  c.spills = true, c.spills_rows = c.wide && e.rows_wait() && (p.tiles_n > in_flight || !v.returns);
  p.at_once = 1;
}

int passes_over_memory(const Config& c, const plan::Epilogue& e) {
  if (!c.spills) return 0;
  return static_cast<int>(std::ranges::count_if(e.levels(), [&](const plan::Stage& s) {
    return !s.over_rows().empty() || (c.spills_rows && !s.rows().empty());
  }));
}

namespace {

/// Bytes of sums that wait in memory: all tiles; in a general epilogue a CTA's tiles of a row, of an image, or of
/// all, and what rows were reduced to.
std::size_t waiting_bytes(const MmaPlan& p, const plan::VisitorShape& v) {
  const Config& c = p.config;
  const auto size = [](int x) { return static_cast<std::size_t>(x); };
  const std::size_t tile = size(c.tiling.m) * size(c.tiling.n) * sizeof(float);
  if (c.mode == Mode::streamed) return size(p.tiles) * tile;
  if (!c.spills) return 0;
  const std::size_t together = size(v.returns ? p.tiles_m : 1) * size(p.tiles_n) * size(v.returns_all ? p.images : 1),
                    of_cta = (together + size(p.ctas) - 1) / size(p.ctas);
  const int kept = c.wide ? 0 : v.kept_row_folds;
  return of_cta * size(p.ctas) * (size(c.products) * tile + size(c.tiling.m) * size(kept) * sizeof(float));
}

}  // namespace

void lay_out_workspace(MmaPlan& p, const plan::VisitorShape& v, std::int64_t channels) {
  const Config& c = p.config;
  const auto take = [&](std::size_t bytes) {
    const std::size_t at = p.workspace_bytes;
    p.workspace_bytes += (bytes + 15) / 16 * 16;
    return at;
  };
  const auto size = [](int x) { return static_cast<std::size_t>(x); };
  MmaPlan::Workspace& w = p.workspace;
  const std::size_t images = size(p.images), across = size(p.tiles_n), slots = images * size(p.slots()),
                    wide = across * size(c.tiling.n), entry = sizeof(Entry);
  if (p.cooperative) w.exits = take(8);
  if (c.parts > 1) {
    const std::size_t shares = size(p.tiles) * size(c.parts - 1);
    w.shares = take(shares * size(c.tiling.m) * size(c.products * c.tiling.n) * sizeof(float));
    w.flags = take(shares * size(c.tiling.warpgroups) * 4);
  }
  if (exchanges(c.mode)) {
    const std::size_t row =
        entry * size(entries_of(floats_exchanged(v))) * images * (static_cast<std::size_t>(channels) / size(c.unit));
    w.slots = take(row * size(p.slots()));
    w.segments = p.segment_slots > 1 ? take(row * size(p.segments())) : w.slots;
  }
  if (const std::size_t bytes = waiting_bytes(p, v); bytes > 0) w.waiting = take(bytes);
  if ((c.mode == Mode::general && c.wide) || v.own_words + v.tile_folds > 0) {
    const std::size_t planes = size(v.fold_planes + v.returned_planes), tiles = size(v.tile_folds);
    w.partials = take((planes * slots * wide + tiles * slots * across) * 4);
    w.results = take((planes * wide + tiles * across) * images * 4);
    const std::size_t returned = v.returns ? size(v.returned_levels) * (images * (across + 1) + 1) : 0;
    const auto segments = size(static_cast<int>(fold_segment_counters(p.images, p.tiles_n, p.slots()))) *
                          (1 + (v.returns ? size(v.returned_levels) : 0));
    w.counters = take((images * across + slots + 1 + returned + segments) * 4);
  }
  if (c.wide || v.returns) {
    const std::size_t lines = images * size(p.tiles_m) * size(c.tiling.m),
                      entries = c.mode == Mode::rows ? 1 : size(v.row_entries);
    w.rows = take((c.meets ? entries * lines * (across + 1) * entry : lines * across * 4 * size(v.row_folds)) +
                  size(v.returned_entries) * images * wide * entry);
  }
}

std::size_t epilogue_bytes(const Config& c, const plan::VisitorShape& v) {
  int places = 0;
  const int n = c.tiling.n;
  for (const int width : v.group_widths) places += (n + width - 1) / width;
  const shared_layout::Bytes folds = v.own_words + v.tile_folds > 0 || c.mode == Mode::general
                                         ? shared_layout::fold_bytes(v.own_words, n, v.tile_folds)
                                         : 0,
                             groups =
                                 places == 0 ? 0 : shared_layout::group_bytes(places, c.tiling.m / c.tiling.warpgroups);
  const auto layout = shared_layout::fragment_layout({.tile_n = n,
                                                      .exchanges = exchanges(c.mode),
                                                      .by_rows = c.mode == Mode::rows,
                                                      .exchanged = v.exchanged,
                                                      .columns_before = v.columns_before,
                                                      .columns_after = v.columns_after,
                                                      .late_words = v.late_words,
                                                      .folds = folds + groups},
                                                     floats_exchanged(v) * static_cast<int>(sizeof(float)));
  return static_cast<std::size_t>(layout.bytes);
}

}  // namespace unisono::families::mma
