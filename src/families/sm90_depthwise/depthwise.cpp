#include "families/sm90_depthwise/depthwise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "families/sm90/flipped.hpp"
#include "families/sm90/gathering.hpp"
#include "support/checked.hpp"

namespace unisono::families::sm90_depthwise {
namespace {

constexpr int threads_of_cta = 128;  // of 64, the two warps of every CTA share two of an SM's four schedulers
constexpr int sm_registers = 65536, most_registers = 220;  // the assembler needs some more now and then
constexpr std::int64_t most_taps = 7;                      // along an axis, that are unrolled
constexpr std::size_t most_filter_bytes = 96 * 1024;       // of shared memory
constexpr int filter_gap = 4;                              // floats: Depthwise::kFilterPitch
constexpr std::int64_t most_strips = std::numeric_limits<std::int32_t>::max();

bool is_unrolled(const Conv2d& c) {
  const auto axis = [&](std::int64_t taps, std::int64_t stride, std::int64_t dilation) {
    return taps <= most_taps && stride <= 2 && (stride == 1 || dilation == 1);
  };
  return axis(c.r, c.stride[0], c.dilation[0]) && axis(c.s, c.stride[1], c.dilation[1]);
}

std::size_t filter_bytes(const sm90::ConvProblem& p, std::int64_t tile_n) {
  return static_cast<std::size_t>(p.conv.r * p.conv.s * (tile_n + filter_gap)) * 4;
}

bool reduces(const plan::VisitorShape& v) {
  return v.own_words + v.fold_words + v.tile_folds + v.row_folds > 0 || v.returns || !v.group_widths.empty();
}

/// Widths of a CTA in vectors: the largest divisors of all of them, so that none is idle.
std::vector<int> widths(std::int64_t vectors) {
  std::set<int> found;
  for (const int most : {8, 16, 32}) {
    int best = 1;
    for (int v = 1; v <= most; ++v)
      if (vectors % v == 0) best = v;
    found.insert(best * 2 > std::min<std::int64_t>(most, vectors) ? best : std::min(most, static_cast<int>(vectors)));
  }
  return {found.begin(), found.end()};
}

/// Image rows of a strip, for a lattice of so many output rows.
std::vector<int> heights(std::int64_t rows) {
  std::set<int> found;
  for (const int about : {4, 6, 8, 12, 16, 24, 32})
    found.insert(static_cast<int>(divide_up(rows, divide_up(rows, about))));
  return {found.begin(), found.end()};
}

template <class T>
std::vector<T> either(const std::optional<T>& fixed, std::vector<T> choices) {
  return fixed ? std::vector<T>{*fixed} : std::move(choices);
}

/// Fields of an override that belong to kernels with matrix instructions.
bool names_others(const sm90::FixedFields& f) {
  return f.tile_k || f.cluster_m || f.stages || f.store_buffers || f.unit || f.group || f.fetch || f.order || f.split ||
         f.swap || f.elements == sm90::Elements::shared || (f.load && *f.load != sm90::Load::depthwise);
}

}  // namespace

bool is_depthwise(const plan::ConvTask& task) {
  const Conv2d& c = task.conv;
  return !task.volume && c.groups >= 2 && c.c == c.groups && sm90::gathering_of(task).direct;
}

plan::ConvTask as_run(const plan::ConvTask& task) {
  auto flipped = task.transposed ? sm90::by_flipped_depthwise(*task.transposed) : std::nullopt;
  return flipped ? *std::move(flipped) : task;
}

std::optional<plan::Refusal> refuse_depthwise(const sm90::ConvProblem& p) {
  const auto no = [](const std::string& reason) { return plan::because("depthwise: " + reason); };
  const Conv2d& c = p.conv;
  if (p.task.transposed && !p.task.flipped)
    return no("a transposed convolution, not by flipped taps: " +
              sm90::beyond_flipped_depthwise(*p.task.transposed)->first());
  if (c.layout != Layout::nhwc) return no("channels first, whose neighbours are pixels");
  const std::int64_t multiplier = c.k / c.groups;
  if (multiplier != 1 && multiplier != 2 && multiplier != 4)
    return no(fmt::format("{} output channels of each input channel; 1, 2 or 4", multiplier));
  if (c.k % 2 != 0) return no(fmt::format("{} channels, which are loaded in pairs at least", c.k));
  if (p.visitor.normalises) return no("the epilogue has a normalisation, for which tiles meet");
  if (reduces(p.visitor)) return no("the epilogue has reductions, which need tiles");
  if (p.resampling.any()) return no("results pooled or upsampled, which are made of tiles in shared memory");
  if (p.placed) return no("an operand that is repeated or strided, whose neighbours need not be contiguous");
  if (p.moments > 0) return no("statistics of the result, which need tiles");
  if (const std::size_t bytes = filter_bytes(p, 4); bytes > most_filter_bytes)
    return no(fmt::format("filters of {} taps, which take {} bytes of shared memory; at most {}", c.r * c.s, bytes,
                          most_filter_bytes));
  return {};
}

int depthwise_threads(const DepthwiseConfig& c) {
  const int vectors = c.tile_n / c.strip.channels;
  return vectors * std::max(1, threads_of_cta / vectors);
}

DepthwisePlan lay_out_depthwise(const DepthwiseConfig& config, const sm90::ConvProblem& p, const plan::Device& device) {
  DepthwisePlan plan;
  plan.config = config;
  const DepthwiseLayout l = depthwise_layout(config.strip, p.conv, p.extents);
  plan.threads = depthwise_threads(config);
  const std::int64_t strips = plan.threads / (config.tile_n / config.strip.channels);
  const auto to_int = [](const char* what, std::int64_t x) { return support::narrow<int>(what, x); };
  plan.images = to_int("images", p.extents.images), plan.rows = to_int("pixels", p.extents.rows_per_image());
  plan.tiles_m = to_int("tiles of pixels", divide_up(l.strips, strips));
  plan.tiles_n = to_int("tiles of channels", divide_up(p.extents.cols, config.tile_n));
  plan.tiles = plan.ctas = static_cast<int>(std::min(std::int64_t{plan.tiles_m} * plan.tiles_n, most_strips));
  plan.shared_bytes = filter_bytes(p, config.tile_n);
  plan.exclusive = false;
  plan.made_for_groups = true;
  plan.numerics.folds = config.mode == sm90::NormMode::general;
  plan.predicted_us = predict_depthwise_us(plan, p, device);
  return plan;
}

namespace {

/// CTAs of such strips, of all widths.
void add_tiles(std::vector<DepthwiseConfig>& list, DepthwiseConfig config, const sm90::ConvProblem& p,
               const plan::Device& d, const sm90::FixedFields& fixed) {
  const DepthwiseStrip& s = config.strip;
  for (const int vectors :
       fixed.tile_n ? std::vector<int>(1, *fixed.tile_n / s.channels) : widths(p.conv.k / s.channels)) {
    config.tile_n = vectors * s.channels;
    if (vectors < 1 || vectors > threads_of_cta) continue;
    config.tile_m = depthwise_threads(config) / vectors * s.rows * s.pixels;
    if (fixed.tile_m.value_or(config.tile_m) != config.tile_m || fixed.tile_n.value_or(config.tile_n) != config.tile_n)
      continue;
    if (filter_bytes(p, config.tile_n) <= std::min(most_filter_bytes, d.shared_bytes)) list.push_back(config);
  }
}

/// Strips of these taps; none where filters leave no registers for any.
std::vector<DepthwiseConfig> with_taps(DepthwiseStrip s, const sm90::ConvProblem& p, const plan::Device& d,
                                       const sm90::FixedFields& fixed) {
  std::vector<DepthwiseConfig> list;
  const Conv2d& c = p.conv;
  DepthwiseConfig config{.element = p.element_bytes() == 4 ? DType::tf32 : c.dtype_x,
                         .mode = p.visitor.general ? sm90::NormMode::general : sm90::NormMode::none,
                         .flipped = p.task.flipped};
  if (fixed.mode && *fixed.mode != config.mode) return list;
  const auto thread = [&](std::size_t i) { return fixed.thread ? std::optional((*fixed.thread)[i]) : std::nullopt; };
  const std::int64_t lattice_rows = divide_up(p.extents.height, depthwise_layout(s, c, p.extents).lattice_h);
  for (const int channels : either(thread(2), {4, 2, 8}))
    for (const int pixels : either(thread(1), {4, 2, 8, 1}))
      for (const int rows : either(thread(0), heights(lattice_rows))) {
        s.rows = rows, s.pixels = pixels, s.channels = channels;
        const bool powers = (channels == 2 || channels == 4 || channels == 8) && pixels <= 16;
        if (!powers || c.k % channels != 0 || channels % s.multiplier != 0 || load_bytes(s, p) > 32) continue;
        const int registers = depthwise_registers(s, p);
        if (registers > most_registers || depthwise_layout(s, c, p.extents).strips > most_strips / 2) continue;
        s.ctas = std::min(5, sm_registers / threads_of_cta / ((registers + 7) / 8 * 8)), config.strip = s;
        add_tiles(list, config, p, d, fixed);
      }
  return list;
}

}  // namespace

std::vector<DepthwiseConfig> depthwise_configurations(const sm90::ConvProblem& p, const plan::Device& d,
                                                      const sm90::FixedFields& fixed) {
  if (names_others(fixed) || refuse_depthwise(p)) return {};
  const Conv2d& c = p.conv;
  const DepthwiseStrip any{.multiplier = static_cast<int>(c.k / c.groups)};
  DepthwiseStrip strip = any;  // small numbers where it is used: is_unrolled() has limits
  strip.taps_h = static_cast<int>(c.r), strip.taps_w = static_cast<int>(c.s);
  strip.stride_h = static_cast<int>(c.stride[0]), strip.stride_w = static_cast<int>(c.stride[1]);
  auto list = is_unrolled(c) ? with_taps(strip, p, d, fixed) : std::vector<DepthwiseConfig>{};
  return list.empty() ? with_taps(any, p, d, fixed) : list;
}

std::string to_string(const DepthwiseStrip& s) {
  return fmt::format("strips of {}x{} pixels by {} channels{}", s.rows, s.pixels, s.channels,
                     s.taps_h > 0 ? fmt::format(" of {}x{} taps", s.taps_h, s.taps_w) : ", tap by tap");
}

std::vector<DepthwisePlan> depthwise_candidates(const plan::ConvTask& task, const plan::Epilogue& epilogue,
                                                const plan::Device& device, const PlanOverride& fixed) {
  std::vector<DepthwisePlan> all;
  if (!is_depthwise(task)) return all;
  const auto problem = sm90::make_problem(as_run(task), epilogue);
  if (!problem) return all;
  for (const DepthwiseConfig& config : depthwise_configurations(*problem, device, sm90::resolve(fixed)))
    all.push_back(lay_out_depthwise(config, *problem, device));
  std::ranges::stable_sort(all, {}, &DepthwisePlan::predicted_us);
  return all;
}

std::string to_string(const DepthwiseConfig& c) {
  return fmt::format("depthwise {}x{} in {}{}{}{}", c.tile_m, c.tile_n, to_string(c.strip),
                     c.flipped ? ", flipped" : "",
                     c.mode != sm90::NormMode::none ? fmt::format(", {}", to_string(c.mode)) : "",
                     c.element == DType::tf32 ? ", f32" : "");
}

std::string describe(const DepthwisePlan& p) {
  return fmt::format("{}, {} tiles, {} CTAs of {} threads, {} KB", to_string(p.config), p.tiles, p.ctas, p.threads,
                     (p.shared_bytes + 512) / 1024);
}

}  // namespace unisono::families::sm90_depthwise
