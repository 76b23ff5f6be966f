#include "families/sm90_depthwise/depthwise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "families/sm90/cost.hpp"
#include "families/sm90/gathering.hpp"
#include "support/checked.hpp"

namespace unisono::families::sm90_depthwise {
namespace {

constexpr int threads_of_cta = 128;
constexpr int sm_registers = 65536, most_registers = 220;  // the assembler needs some more now and then
constexpr std::int64_t most_taps = 7;                      // along an axis, that are unrolled
constexpr std::size_t most_filter_bytes = 96 * 1024;       // of shared memory
constexpr int filter_gap = 4;                              // floats: Depthwise::kFilterPitch
constexpr std::int64_t most_strips = std::numeric_limits<std::int32_t>::max();

std::int64_t divide_up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

bool is_unrolled(const Conv2d& c) {
  const auto axis = [&](std::int64_t taps, std::int64_t stride, std::int64_t dilation) {
    return taps <= most_taps && stride <= 2 && (stride == 1 || dilation == 1);
  };
  return axis(c.r, c.stride[0], c.dilation[0]) && axis(c.s, c.stride[1], c.dilation[1]);
}

int columns_in(const DepthwiseStrip& s) { return (s.pixels - 1) * s.stride_w + s.taps_w; }
int overlap(const DepthwiseStrip& s) { return static_cast<int>(divide_up(s.taps_h, s.stride_h)); }

/// Bytes of the vector of input channels that a thread loads at once.
std::int64_t load_bytes(const DepthwiseStrip& s, const sm90::ConvProblem& p) {
  return s.channels / s.multiplier * p.element_bytes();
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
  for (const int about : {4, 8, 16, 32}) found.insert(static_cast<int>(divide_up(rows, divide_up(rows, about))));
  return {found.begin(), found.end()};
}

template <class T>
std::vector<T> either(const std::optional<T>& fixed, std::vector<T> choices) {
  return fixed ? std::vector<T>{*fixed} : std::move(choices);
}

/// Fields of an override that belong to kernels with matrix instructions.
bool names_others(const sm90::FixedFields& f) {
  return f.tile_k || f.cluster_m || f.stages || f.store_buffers || f.unit || f.group || f.fetch || f.order || f.split ||
         f.swap || (f.load && *f.load != sm90::Load::depthwise);
}

}  // namespace

bool is_depthwise(const plan::ConvTask& task) {
  const Conv2d& c = task.conv;
  return c.groups >= 2 && c.c == c.groups && sm90::gathering_of(task).direct;
}

std::optional<plan::Refusal> refuse_depthwise(const sm90::ConvProblem& p) {
  const auto no = [](const std::string& reason) { return plan::because("depthwise: " + reason); };
  const Conv2d& c = p.conv;
  if (p.task.transposed) return no("a transposed convolution");
  if (c.layout != Layout::nhwc) return no("channels first, whose neighbours are pixels");
  const std::int64_t multiplier = c.k / c.groups;
  if (multiplier != 1 && multiplier != 2 && multiplier != 4)
    return no(fmt::format("{} output channels of each input channel; 1, 2 or 4", multiplier));
  if (c.k % 2 != 0) return no(fmt::format("{} channels, which are loaded in pairs at least", c.k));
  if (p.visitor.normalises) return no("the epilogue has a normalisation, for which tiles meet");
  if (reduces(p.visitor)) return no("the epilogue has reductions, which are of tiles");
  if (p.resampling.any()) return no("results pooled or upsampled, which are made of tiles in shared memory");
  if (p.head.any()) return no("a head, which multiplies tiles in shared memory");
  if (p.moments > 0) return no("statistics of the result, which are of tiles");
  if (const std::size_t bytes = filter_bytes(p, 4); bytes > most_filter_bytes)
    return no(fmt::format("filters of {} taps, which take {} bytes of shared memory; at most {}", c.r * c.s, bytes,
                          most_filter_bytes));
  return {};
}

int depthwise_threads(const DepthwiseConfig& c) {
  const int vectors = c.tile_n / c.strip.channels;
  return vectors * std::max(1, threads_of_cta / vectors);
}

DepthwiseLayout depthwise_layout(const DepthwiseStrip& s, const Conv2d& c, const Extents& e) {
  DepthwiseLayout l;
  if (s.taps_h > 0) {
    if (s.stride_h == 1) l.lattice_h = static_cast<int>(c.dilation[0]);
    if (s.stride_w == 1) l.lattice_w = static_cast<int>(c.dilation[1]);
  }
  // A lattice that is coarser than the image has one pixel
  l.lattice_h = static_cast<int>(std::min<std::int64_t>(l.lattice_h, e.height));
  l.lattice_w = static_cast<int>(std::min<std::int64_t>(l.lattice_w, e.width));
  l.across = divide_up(e.width, std::int64_t{s.pixels} * l.lattice_w) * l.lattice_w;
  l.down = divide_up(e.height, std::int64_t{s.rows} * l.lattice_h) * l.lattice_h;
  l.strips = l.across * l.down * e.images;
  for (int band = 1; band <= 8; ++band)
    if (l.down % band == 0) l.band = band;
  return l;
}

int depthwise_rows_ahead(const DepthwiseStrip& s, const sm90::ConvProblem& p) {
  return s.taps_h == 0 || columns_in(s) * load_bytes(s, p) > 48 ? 1 : 2;  // Depthwise::kAhead
}

// Fitted to the assembler's reports: of some 200 random kernels a few spill some words
int depthwise_registers(const DepthwiseStrip& s, const sm90::ConvProblem& p) {
  const int columns = std::max(0, p.after.columns - 1) * s.channels, tensors = p.after.tensors * s.channels;
  const bool more = columns + tensors > 0 || p.stores > 1 || p.element_bytes() == 4;
  const int epilogue = columns + tensors + (p.visitor.general ? 24 : more ? 12 : 0);
  if (s.taps_h == 0) return 40 + 2 * s.channels + s.pixels * (2 * s.channels + 4) + epilogue;
  const int in = columns_in(s), kept = s.taps_h * s.taps_w * s.channels;
  return kept + overlap(s) * s.pixels * s.channels +
         (depthwise_rows_ahead(s, p) + 1) * in * static_cast<int>(divide_up(load_bytes(s, p), 4)) +
         in * (s.channels / s.multiplier) / 2 + 2 * in + 24 + epilogue;
}

double depthwise_instructions(const DepthwiseStrip& s, const sm90::ConvProblem& p) {
  const double elements = s.pixels * s.channels, taps = static_cast<double>(p.conv.r * p.conv.s);
  const double widen = p.element_bytes() == 2 ? s.channels / s.multiplier : 0.0;
  const double loads = 5 + std::max(1.0, static_cast<double>(load_bytes(s, p)) / 16) + widen;
  double rows_in = 0, multiplications = 0, sum_rows = s.rows;
  if (s.taps_h > 0) {
    rows_in = (s.rows - 1) * s.stride_h + s.taps_h;
    sum_rows += (overlap(s) - 1) / 2.0;
    multiplications = sum_rows * taps * elements;
    multiplications += rows_in * columns_in(s) * loads;
  } else {
    multiplications = s.rows * taps * (elements + s.pixels * (loads + 4) + 12);
  }
  const double epilogue = 1.5 + p.after.simple + 5.0 * p.after.special + 1.0 * p.after.tensors;
  return 280 + multiplications + s.rows * (s.pixels * 6.0 + elements * epilogue);
}

namespace {

/// Shares of the instructions that a scheduler can issue, and that one warp of it can; channels that lie together in
/// less than a line of a cache; not measured.
struct Constants : sm90::LaunchConstants {
  double issue = 0.8, warp_issue = 0.35, narrow_line = 0.04;
  double l2_tbps = 5.5;
};
constexpr Constants k;

}  // namespace

double predict_depthwise_us(const DepthwisePlan& p, const sm90::ConvProblem& problem, const plan::Device& device) {
  const DepthwiseStrip& s = p.config.strip;
  const DepthwiseLayout l = depthwise_layout(s, problem.conv, problem.extents);
  const double instructions = depthwise_instructions(s, problem), warps = p.threads / 128.0;  // of a scheduler, a CTA
  const double rows_in =
      (s.rows - 1) * static_cast<double>(problem.conv.stride[0]) + static_cast<double>(problem.conv.r);
  const double waits = rows_in * k.load_clk / depthwise_rows_ahead(s, problem) + k.start_clk;
  double clocks = 0;
  for (double left = std::ceil(static_cast<double>(p.ctas) / device.sms); left > 0; left -= s.ctas) {
    const double here = std::min<double>(left, s.ctas) * warps;
    clocks += std::max(here * instructions / std::min(k.issue, k.warp_issue * here), waits);
  }
  // What a CTA reads from L2: its strips' edges are read by others too
  const double strips = p.config.tile_m / static_cast<double>(s.rows * s.pixels),
               high = std::min<double>(l.band, strips);
  const auto side = [](double outputs, std::int64_t stride, std::int64_t taps) {
    return ((outputs - 1) * static_cast<double>(stride) + static_cast<double>(taps)) /
           (outputs * static_cast<double>(stride));
  };
  const double again = side(high * s.rows, problem.conv.stride[0], problem.conv.r) *
                       side(strips / high * s.pixels, problem.conv.stride[1], problem.conv.s);
  const double in = static_cast<double>(problem.conv.n * problem.conv.c) *
                    static_cast<double>(problem.conv.h * problem.conv.w * problem.element_bytes());
  const double memory = sm90::memory_us(problem, device), l2 = memory + in * (again - 1) / k.l2_tbps * 1e-6;
  const double together = std::min(
      128.0, p.config.tile_n / static_cast<double>(s.multiplier) * static_cast<double>(problem.element_bytes()));
  const double us = sm90::soft_max(
      {clocks * 1e-3 / device.clock_ghz, k.ramp_us + memory, k.ramp_us + l2 * device.memory_tbps / k.l2_tbps});
  return k.launch_us + us * (1 + k.narrow_line * std::log2(128 / together));
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

/// Strips of these taps; none where filters leave no registers for any.
std::vector<DepthwiseConfig> with_taps(DepthwiseStrip s, const sm90::ConvProblem& p, const plan::Device& d,
                                       const sm90::FixedFields& fixed) {
  std::vector<DepthwiseConfig> list;
  const Conv2d& c = p.conv;
  DepthwiseConfig config{.element = p.element_bytes() == 4 ? DType::tf32 : c.dtype_x,
                         .mode = p.visitor.general ? sm90::NormMode::general : sm90::NormMode::none};
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
        s.ctas = std::min(5, sm_registers / threads_of_cta / ((registers + 7) / 8 * 8));
        const auto width = fixed.tile_n ? std::optional(*fixed.tile_n / channels) : std::nullopt;
        for (const int vectors : either(width, widths(c.k / channels))) {
          config.tile_n = vectors * channels, config.strip = s;
          if (vectors < 1 || vectors > threads_of_cta) continue;
          config.tile_m = depthwise_threads(config) / vectors * rows * pixels;
          if (fixed.tile_m.value_or(config.tile_m) != config.tile_m ||
              fixed.tile_n.value_or(config.tile_n) != config.tile_n)
            continue;
          if (filter_bytes(p, config.tile_n) <= std::min(most_filter_bytes, d.shared_bytes)) list.push_back(config);
        }
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
                                                const plan::Device& device, const plan::Override& fixed) {
  std::vector<DepthwisePlan> all;
  if (!is_depthwise(task)) return all;
  const auto problem = sm90::make_problem(task, epilogue, device);
  if (!problem) return all;
  for (const DepthwiseConfig& config : depthwise_configurations(*problem, device, sm90::resolve(fixed)))
    all.push_back(lay_out_depthwise(config, *problem, device));
  std::ranges::stable_sort(all, {}, &DepthwisePlan::predicted_us);
  return all;
}

std::string to_string(const DepthwiseConfig& c) {
  return fmt::format("depthwise {}x{} in {}{}{}", c.tile_m, c.tile_n, to_string(c.strip),
                     c.mode != sm90::NormMode::none ? fmt::format(", {}", to_string(c.mode)) : "",
                     c.element == DType::tf32 ? ", f32" : "");
}

std::string describe(const DepthwisePlan& p) {
  return fmt::format("{}, {} tiles, {} CTAs of {} threads, {} KB", to_string(p.config), p.tiles, p.ctas, p.threads,
                     (p.shared_bytes + 512) / 1024);
}

}  // namespace unisono::families::sm90_depthwise
