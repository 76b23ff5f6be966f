#include "products/sm90_filter_gradient.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codegen/pieces.hpp"
#include "support/checked.hpp"

namespace unisono::products {

namespace {

// What kernels/unisono/product/sm90_filter_gradient.cuh has
constexpr int step = 64, box_bytes = 64 * 128, tile_side = 8, halo_side = 10, load_registers = 24;
constexpr std::uint32_t adding_threads = 256;
constexpr int most_parts = 256, most_teams = 8;
constexpr std::int64_t most_bytes_of_parts = std::int64_t{256} << 20;

std::int64_t whole_steps(std::int64_t x, std::int64_t of) { return (x + of - 1) / of; }

// What a plan's tiles are of a problem
struct Tiling {
  std::int64_t filter_tiles, column_tiles, tiles, steps, part_steps, cut;
  Tiling(const FilterGradientProblem& problem, const Sm90FilterGradientPlan& plan) {
    const FilterGradientParams& p = problem.extents;
    const std::int64_t channel_slabs = whole_steps(p.channels, 64);
    filter_tiles = whole_steps(p.filters, plan.rows());
    column_tiles = plan.halo ? channel_slabs : whole_steps(problem.taps * channel_slabs, plan.slabs);
    tiles = (support::Checked("tiles of a filter's gradient", p.groups) * filter_tiles * column_tiles).to<int>();
    const std::int64_t images = p.pixels / (std::int64_t{p.out_height} * p.out_width);
    steps = plan.halo ? images * whole_steps(p.out_height, tile_side) * whole_steps(p.out_width, tile_side)
                      : whole_steps(p.pixels, step);
    part_steps = whole_steps(steps, plan.parts), cut = tiles - plan.whole;
  }
};

std::int64_t tile_sums(const Sm90FilterGradientPlan& plan) {
  return std::int64_t{plan.rows()} * plan.tile_slabs() * 64;
}

std::int64_t bytes_of_parts(const Sm90FilterGradientPlan& plan, std::int64_t cut) {
  return plan.parts == 1 ? 0 : 4 * cut * plan.parts * tile_sums(plan);
}

// So many that a team adds eight parts at most
int teams_of(const Sm90FilterGradientPlan& plan) {
  int teams = 1;
  while (teams < most_teams && plan.parts > 8 * teams) teams *= 2;
  return teams;
}

// An SM's clocks for a step: its tensor cores make 2,048 multiply-adds in one, L2 delivers 48 bytes, shared memory
// moves 128. Each matrix instruction reads its filters and all of its slabs
double step_clocks(const Sm90FilterGradientPlan& plan) {
  const double multiplications = plan.groups * plan.slabs * 64.0 * 64 * step / 2048;
  const double loaded = plan.halo ? 128.0 * (halo_side * halo_side + step) : plan.stage_bytes();
  const double read = plan.groups * (1.0 + plan.slabs) * box_bytes;
  return 1.05 * std::max({multiplications, loaded / 48, (read + loaded) / 128});
}

double predicted(const FilterGradientProblem& problem, const Sm90FilterGradientPlan& plan, const plan::Device& device) {
  const Tiling t(problem, plan);
  const double sums = static_cast<double>(tile_sums(plan));
  const auto units = [&](std::int64_t count, std::int64_t steps, double bytes) {  // one after another on an SM
    return static_cast<double>(whole_steps(count, device.sms)) *
           (static_cast<double>(steps) * step_clocks(plan) + 800 + bytes / 40);
  };
  double clocks = 2500 + units(plan.whole, t.steps, sums * (problem.f32 ? 4 : 2));
  if (t.cut == 0) return clocks;
  clocks += units(t.cut * plan.parts, t.part_steps, 4 * sums);
  // The second launch: what it reads, and at least its rounds of eight loads
  const double read = static_cast<double>(bytes_of_parts(plan, t.cut)) / (40.0 * device.sms);
  return clocks + 2500 + std::max(read, 900.0 * std::ceil(plan.parts / (8.0 * teams_of(plan))));
}

bool has_halo_tiles(const FilterGradientProblem& problem) {
  const FilterGradientParams& p = problem.extents;
  return problem.taps == 9 && p.taps_w == 3 && p.stride_h == 1 && p.stride_w == 1 && p.dilation_h == 1 &&
         p.dilation_w == 1;
}

// Corners of im2col: where the first tap stands for the first and the last pixel of a line of g
std::array<int, 2> corners(int extent, int out, int stride, int pad) {
  return {-pad, (out - 1) * stride - pad - (extent - 1)};
}

std::optional<std::string> beyond_loads(int extent, int out, int stride, int pad, std::int64_t span) {
  if (stride > 8) return fmt::format("a stride of {}; TMA's reach 8", stride);
  if (span > 255) return fmt::format("taps {} apart; TMA's reach 255", span);
  for (const int corner : corners(extent, out, stride, pad))
    if (corner < -128 || corner > 127) return fmt::format("a corner at {}; TMA's reach -128 to 127", corner);
  return std::nullopt;
}

PixelMap map_of(std::int64_t channels, std::int64_t pitch, std::array<std::int64_t, 3> pixels, std::uint32_t side) {
  PixelMap map;
  map.extents[0] = static_cast<std::uint64_t>(channels);
  std::int64_t stride = 2 * pitch;
  for (std::size_t i = 0; i < 3; ++i) {
    map.extents[i + 1] = static_cast<std::uint64_t>(pixels[i]), map.strides[i] = static_cast<std::uint64_t>(stride);
    stride *= pixels[i];
  }
  map.box = {64, side, side, 1};
  return map;
}

void describe_operands(Sm90FilterGradientKernels& k, const FilterGradientProblem& problem, bool halo) {
  const FilterGradientParams& p = problem.extents;
  const std::int64_t images = p.pixels / (std::int64_t{p.out_height} * p.out_width);
  const std::int64_t filters = std::int64_t{p.groups} * p.filters;
  k.image = map_of(std::int64_t{p.groups} * p.channels, p.x_pixel, {p.width, p.height, images}, halo_side);
  if (halo) {
    k.gradient = map_of(filters, p.g_pixel, {p.out_width, p.out_height, images}, tile_side);
    return;
  }
  k.gradient = map_of(filters, p.g_pixel, {p.pixels, 1, 1}, step);
  k.gradient.rank = 3, k.gradient.box[2] = 1;
  const auto w = corners(p.width, p.out_width, p.stride_w, p.pad_w),
             h = corners(p.height, p.out_height, p.stride_h, p.pad_h);
  k.image.im2col = true, k.image.pixels = step, k.image.box = {64, 1, 1, 1};
  k.image.lower = {w[0], h[0]}, k.image.upper = {w[1], h[1]};
  k.image.steps = {1, static_cast<std::uint32_t>(p.stride_w), static_cast<std::uint32_t>(p.stride_h), 1};
}

Sm90FilterGradientParams parameters_of(const FilterGradientProblem& problem, const Sm90FilterGradientPlan& plan) {
  const FilterGradientParams& p = problem.extents;
  const Tiling t(problem, plan);
  Sm90FilterGradientParams q{};
  const auto set = [](int& to, std::int64_t x) { to = support::Checked("tiles of a filter's gradient", x).to<int>(); };
  q.result_filter = p.result_filter, q.result_tap = p.result_tap, q.filters = p.filters, q.channels = p.channels;
  set(q.channel_slabs, whole_steps(p.channels, 64)), set(q.slabs, problem.taps * q.channel_slabs);
  set(q.filter_tiles, t.filter_tiles), set(q.column_tiles, t.column_tiles), set(q.tiles, t.tiles);
  q.whole = plan.whole, q.parts = plan.parts, set(q.units, plan.whole + t.cut * plan.parts);
  set(q.steps, t.steps), set(q.part_steps, t.part_steps);
  set(q.across, plan.halo ? whole_steps(p.out_width, tile_side) : p.out_width);
  set(q.down, plan.halo ? whole_steps(p.out_height, tile_side) : p.out_height);
  q.stride_h = p.stride_h, q.stride_w = p.stride_w, q.pad_h = p.pad_h, q.pad_w = p.pad_w;
  q.dilation_h = p.dilation_h, q.dilation_w = p.dilation_w, q.taps_w = p.taps_w;
  q.teams = teams_of(plan);
  return q;
}

Kernel addition_of_parts(const FilterGradientProblem& problem, const Sm90FilterGradientPlan& plan, std::int64_t cut) {
  Kernel k;
  k.entry = "unisono_filter_gradient_of_parts";
  k.threads = adding_threads;
  k.source = source_of(
      "sm90_filter_gradient_parts.cuh", k.entry, "Sm90FilterGradientParams",
      fmt::format("sm90_filter_gradient_of_parts<{}, product::Sm90FilterGradientTile<{}, {}, {}>, {}>",
                  codegen::element_name(problem.element), plan.halo, plan.rows(), plan.tile_slabs(), problem.f32),
      std::to_string(adding_threads));
  k.ctas = support::Checked("CTAs that add parts",
                            whole_steps(cut * tile_sums(plan) / 4, std::int64_t{adding_threads} / teams_of(plan)))
               .to<std::uint32_t>();
  k.how = fmt::format("adds {} parts", plan.parts);
  return k;
}

std::string described(const Sm90FilterGradientPlan& plan, const Tiling& t, std::uint32_t ctas) {
  std::string text =
      fmt::format("filter gradient kernel, wgmma, {} {}, tiles of {} filters x {} slabs",
                  plan.halo ? "halo tiles" : "64", plan.halo ? "of 8x8" : "pixels", plan.rows(), plan.tile_slabs());
  if (plan.whole > 0) text += fmt::format(", {} whole", plan.whole);
  if (t.cut > 0) text += fmt::format(", {} in {} parts", t.cut, plan.parts);
  return text + fmt::format(", {} CTAs", ctas);
}

// All that differ in more than how tiles are shared out. Three warpgroups and the one that loads leave registers for
// sums of three slabs
std::vector<Sm90FilterGradientPlan> kinds(bool halo) {
  std::vector<Sm90FilterGradientPlan> all;
  if (halo) all.push_back({.halo = true});
  for (const int groups : {3, 2, 1})
    for (int slabs = groups == 3 ? 3 : 4; slabs > 0; --slabs) all.push_back({.groups = groups, .slabs = slabs});
  return all;
}

}  // namespace

int Sm90FilterGradientPlan::stage_bytes() const {
  const int image = (halo_side * halo_side * 128 + 1023) / 1024 * 1024;
  return halo ? box_bytes + image : (groups + slabs) * box_bytes;
}

// And two barriers for each; stages begin at multiples of 1,024 bytes
int Sm90FilterGradientPlan::stages(const plan::Device& device) const {
  return std::min((static_cast<int>(device.shared_bytes) - 1024) / (stage_bytes() + 16), 10);
}

std::optional<plan::Refusal> refuse_sm90_filter_gradient(const FilterGradientProblem& problem,
                                                         const plan::Device& device) {
  const FilterGradientParams& p = problem.extents;
  if (device.major != 9) return plan::because(fmt::format("wgmma needs sm_90a; this is {}", device.arch()));
  const bool octets = p.channels % 8 == 0 && (p.groups == 1 || p.filters % 8 == 0) && p.x_pixel % 8 == 0 &&
                      p.g_pixel % 8 == 0 && p.result_tap % 8 == 0 && p.result_filter % 8 == 0;
  if (!octets || problem.x_first % 16 != 0 || problem.g_first % 16 != 0 || problem.result_first % 16 != 0)
    return plan::because("channels or filters of a group that are no multiples of 8, or begin at none");
  const std::int64_t below = (problem.taps / p.taps_w - 1) * p.dilation_h, right = (p.taps_w - 1) * p.dilation_w;
  if (const auto why = beyond_loads(p.height, p.out_height, p.stride_h, p.pad_h, below))
    return plan::because(*why + " along the height");
  if (const auto why = beyond_loads(p.width, p.out_width, p.stride_w, p.pad_w, right))
    return plan::because(*why + " along the width");
  return std::nullopt;
}

std::vector<Sm90FilterGradientPlan> sm90_filter_gradient_plans(const FilterGradientProblem& problem,
                                                               const plan::Device& device) {
  std::vector<Sm90FilterGradientPlan> all;
  for (Sm90FilterGradientPlan plan : kinds(has_halo_tiles(problem))) {
    const Tiling t(problem, plan);
    const auto add = [&](std::int64_t whole, int parts) {
      plan.whole = static_cast<int>(whole), plan.parts = parts;
      const std::int64_t cut = t.tiles - whole, last = whole_steps(t.steps, parts) * (parts - 1);
      if (last >= t.steps || bytes_of_parts(plan, cut) > most_bytes_of_parts) return;
      plan.clocks = predicted(problem, plan, device);
      all.push_back(plan);
    };
    add(t.tiles, 1);
    for (int parts = 2; parts <= std::min<std::int64_t>(most_parts, t.steps); ++parts) {
      add(0, parts);
      // Full rounds of the GPU, and the rest in parts
      if (t.tiles > device.sms && t.tiles % device.sms > 0) add(t.tiles / device.sms * device.sms, parts);
    }
  }
  std::ranges::stable_sort(all, {}, &Sm90FilterGradientPlan::clocks);
  return all;
}

Sm90FilterGradientKernels sm90_filter_gradient(const FilterGradientProblem& problem, const Sm90FilterGradientPlan& plan,
                                               const plan::Device& device) {
  const Tiling t(problem, plan);
  Sm90FilterGradientKernels made;
  made.parameters = parameters_of(problem, plan);
  describe_operands(made, problem, plan.halo);
  const int each = 65536 / plan.threads() / 8 * 8,
            registers = std::min(((plan.groups + 1) * each - load_registers) / plan.groups / 8 * 8, 240);
  Kernel& k = made.sums;
  k.entry = "unisono_filter_gradient";
  k.threads = static_cast<std::uint32_t>(plan.threads());
  k.source = source_of("sm90_filter_gradient.cuh", k.entry, "Sm90FilterGradientParams",
                       fmt::format("sm90_filter_gradient<product::Sm90FilterGradientShape<{}, {}, {}, {}, {}, {}>, {}>",
                                   codegen::element_name(problem.element), plan.halo, plan.groups, plan.slabs,
                                   plan.stages(device), registers, problem.f32),
                       fmt::format("{}, 1", plan.threads()));
  k.ctas = static_cast<std::uint32_t>(std::min(made.parameters.units, device.sms));
  k.shared_bytes = static_cast<std::uint32_t>(1024 + plan.stages(device) * (plan.stage_bytes() + 16));
  k.how = described(plan, t, k.ctas);
  if (t.cut > 0)
    made.addition = addition_of_parts(problem, plan, t.cut), made.partial_bytes = bytes_of_parts(plan, t.cut);
  return made;
}

std::vector<Sm90FilterGradientPlan> sm90_filter_gradient_space() {
  std::vector<Sm90FilterGradientPlan> all;
  for (const Sm90FilterGradientPlan& kind : kinds(true)) {
    all.push_back(kind);
    all.back().parts = 2;
  }
  return all;
}

}  // namespace unisono::products
