#include "products/filter_gradient.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "codegen/pieces.hpp"
#include "support/checked.hpp"

namespace unisono::products {

namespace {

constexpr int cta_threads = 128, step_pixels = 32, step_stages = 3;  // kernels/unisono/product/filter_gradient.cuh
constexpr int most_parts = 128;
constexpr std::int64_t most_partial_bytes = std::int64_t{256} << 20;
constexpr std::uint32_t addition_threads = 256;

struct SumsTile {
  int rows = 128, columns = 128;
  std::uint32_t shared_bytes() const {
    return static_cast<std::uint32_t>(step_stages * step_pixels * 2 * (rows + columns));
  }
  // On an SM: registers for the sums and the fragments
  int ctas(const plan::Device& device) const {
    const int by_registers = rows * columns == 128 * 128 ? 2 : rows * columns == 64 * 64 ? 4 : 3;
    return std::clamp(static_cast<int>((device.shared_bytes + 1024) / (shared_bytes() + 1024)), 1, by_registers);
  }
  // An SM's clocks for the products of a step. Hopper makes 2,540 operations of mma.sync in a clock, and moves 128
  // bytes of shared memory: two warps read each operand, and copies write it once. With its waits a step takes 3.2
  // times as long (measured on an H200)
  double clocks() const {
    const double multiplications = 2.0 * rows * columns * step_pixels / 2540;
    const double bytes = 2.0 * step_pixels * (2.0 * (rows + columns) + (rows + columns));
    return 3.2 * std::max(multiplications, bytes / 128);
  }
};

std::int64_t up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to; }

// Pixels of a part: whole steps
std::int64_t part_pixels(std::int64_t pixels, int parts) { return up(up(pixels, parts), step_pixels) * step_pixels; }

std::int64_t sums_of(const FilterGradientParams& p) { return std::int64_t{p.groups} * p.filters * p.columns; }

double predicted_clocks(const FilterGradientParams& p, const SumsTile& tile, int parts, const plan::Device& device) {
  const std::int64_t tiles = up(p.filters, tile.rows) * up(p.columns, tile.columns) * p.groups;
  const auto of_an_sm = static_cast<double>(up(tiles * parts, device.sms));
  const auto steps = static_cast<double>(part_pixels(p.pixels, parts) / step_pixels);
  const double alone = of_an_sm < 2 || tile.ctas(device) < 2 ? 1.4 : 1;  // nothing else runs while it waits for memory
  double clocks = of_an_sm * (steps * tile.clocks() * alone + 1500);     // and the first loads, and its stores
  if (parts > 1) clocks += 4000 + 8.0 * static_cast<double>(parts * sums_of(p)) / (40.0 * device.sms);  // a launch, L2
  return clocks;
}

// Elements that copies of an operand take, whose pixels lie `pixel` elements apart: those of a group begin anywhere
// among multiples of `channels`
std::int64_t together(std::int64_t pixel, std::int64_t first, std::int64_t groups, std::int64_t channels) {
  std::int64_t all = std::gcd(std::gcd(std::int64_t{8}, pixel), first / 2);
  if (groups > 1) all = std::gcd(all, channels);
  return all;
}

std::string_view element_of(const FilterGradientProblem& problem) { return codegen::element_name(problem.element); }

Kernel addition_of(const FilterGradientProblem& problem, const plan::Device& device) {
  const FilterGradientParams& p = problem.extents;
  Kernel k;
  k.entry = "unisono_filter_gradient_of_parts";
  k.threads = addition_threads;
  k.source = source_of("filter_gradient.cuh", k.entry, "FilterGradientParams",
                       fmt::format("filter_gradient_of_parts<{}, {}>", element_of(problem), problem.f32),
                       std::to_string(addition_threads));
  k.ctas = static_cast<std::uint32_t>(
      std::min(up(sums_of(p), addition_threads), std::int64_t{device.sms} * (device.threads / int{addition_threads})));
  k.how = fmt::format("adds {} parts", p.parts);
  return k;
}

}  // namespace

std::vector<FilterGradientPlan> filter_gradient_plans(FilterGradientProblem& problem, const plan::Device& device) {
  FilterGradientParams& p = problem.extents;
  const std::int64_t x_together = together(p.x_pixel, problem.x_first, p.groups, p.channels);
  p.tap_columns = static_cast<int>(up(p.channels, x_together) * x_together);
  p.columns =
      (support::Checked("columns of a filter's gradient", problem.taps) * std::int64_t{p.tap_columns}).to<int>();
  std::vector<FilterGradientPlan> all;
  for (const SumsTile& tile : {SumsTile{128, 128}, SumsTile{128, 64}, SumsTile{64, 128}, SumsTile{64, 64}})
    for (int parts = 1; parts <= most_parts; ++parts) {
      const bool has_empty = part_pixels(p.pixels, parts) * (parts - 1) >= p.pixels;
      if (parts > 1 && (has_empty || parts * sums_of(p) * 4 > most_partial_bytes)) continue;
      all.push_back({tile.rows, tile.columns, parts, predicted_clocks(p, tile, parts, device)});
    }
  std::ranges::stable_sort(all, {}, &FilterGradientPlan::clocks);
  return all;
}

FilterGradientKernels filter_gradient(FilterGradientProblem& problem, const FilterGradientPlan& plan,
                                      const plan::Device& device) {
  FilterGradientParams& p = problem.extents;
  const std::int64_t x_together = together(p.x_pixel, problem.x_first, p.groups, p.channels);
  const std::int64_t g_together = together(p.g_pixel, problem.g_first, p.groups, p.filters);
  const SumsTile tile{plan.rows, plan.columns};
  p.row_tiles = static_cast<int>(up(p.filters, tile.rows));
  p.column_tiles = static_cast<int>(up(p.columns, tile.columns));
  p.parts = plan.parts;
  p.part_pixels = static_cast<int>(part_pixels(p.pixels, p.parts));
  FilterGradientKernels made;
  Kernel& k = made.sums;
  k.entry = "unisono_filter_gradient";
  k.threads = cta_threads;
  k.source =
      source_of("filter_gradient.cuh", k.entry, "FilterGradientParams",
                fmt::format("filter_gradient<product::FilterGradientTile<{}, {}, {}, {}, {}>, {}>", element_of(problem),
                            tile.rows, tile.columns, 2 * g_together, 2 * x_together, problem.f32),
                fmt::format("{}, {}", cta_threads, tile.ctas(device)));
  k.ctas = (support::Checked("CTAs of a filter's gradient", std::int64_t{p.row_tiles}) * std::int64_t{p.column_tiles} *
            std::int64_t{p.groups} * std::int64_t{p.parts})
               .to<std::uint32_t>();
  k.shared_bytes = tile.shared_bytes();
  k.how = fmt::format("filter gradient kernel, mma.sync, tiles of {}x{}, {}{} CTAs", tile.rows, tile.columns,
                      p.parts > 1 ? fmt::format("{} parts, ", p.parts) : "", k.ctas);
  if (p.parts > 1) made.addition = addition_of(problem, device), made.partial_bytes = p.parts * sums_of(p) * 4;
  return made;
}

// Kernels differ by the tile, the copies of each operand, the element and the result
std::vector<FilterGradientProblem> filter_gradient_space() {
  std::vector<FilterGradientProblem> all;
  for (const DType element : {DType::bf16, DType::f16})
    for (const bool f32 : {false, true})
      for (const int x : {8, 4, 2, 1})
        for (const int g : {8, 4, 2, 1})
          for (const int filters : {64, 128})
            for (const int channels : {64, 128}) {
              FilterGradientProblem problem{.element = element, .f32 = f32};
              FilterGradientParams& p = problem.extents;
              p.x_pixel = channels * x, p.g_pixel = filters * g;
              if (x < 8) p.x_pixel = x * (channels / x * 2 + 1);
              if (g < 8) p.g_pixel = g * (filters / g * 2 + 1);
              p.result_tap = p.result_filter = channels;
              p.height = p.width = p.out_height = p.out_width = 32, p.pixels = 32 * 32;
              p.filters = filters, p.channels = channels, p.groups = p.taps_w = 1;
              p.stride_h = p.stride_w = p.dilation_h = p.dilation_w = 1;
              all.push_back(problem);
            }
  return all;
}

}  // namespace unisono::products
