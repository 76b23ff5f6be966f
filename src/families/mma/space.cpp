#include "families/mma/space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "families/mma/cost.hpp"
#include "families/mma/epilogue.hpp"
#include "families/mma/problem.hpp"
#include "support/checked.hpp"
#include "unisono/params/sm80_conv_params.cuh"

namespace unisono::families::mma {
namespace {

struct Shape {
  int m, warpgroups;
};
constexpr std::array shapes{Shape{64, 1}, Shape{128, 1}, Shape{128, 2}, Shape{256, 2}};
constexpr std::array widths{16, 32, 48, 64, 80, 96, 128, 160};
constexpr std::array step_bytes{64, 128};

constexpr int registers_of_sm = 65536, most_registers = 255;
constexpr int own_registers = 72;
constexpr std::array parts_of_tiles{1, 2, 3, 4, 6, 8};
constexpr int fewest_steps_of_part = 4;
constexpr std::size_t largest_workspace = std::size_t{32} << 30;
constexpr std::size_t reserved_bytes = 1024;                    // of a CTA's shared memory, by the driver
constexpr std::size_t group_from_bytes = std::size_t{8} << 20;  // filters beyond this come by groups of rows of tiles

std::int64_t divided_up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

/// k, or columns of an operand whose lines are its k: a power of two of spans.
bool has_lines(const Operand& o, int rows) { return !o.columns || (rows >= 32 && (rows & (rows - 1)) == 0); }

bool fits_contraction(const Config& c, const plan::ConvTask& task) {
  const Tiling& t = c.tiling;
  const std::int64_t outputs = task.conv.k / task.conv.groups;
  if (task.conv.groups > 1 && outputs % t.n != 0) return false;
  const auto spans = [&](const Operand& o, int rows) {  // of a line
    return static_cast<int>((o.columns ? rows : t.k) * c.element_bytes()) / o.copy;
  };
  return has_lines(c.image, t.m) && has_lines(c.filter, t.n) && t.threads() % spans(c.image, t.m) == 0 &&
         t.threads() % spans(c.filter, t.n) == 0;
}

/// A thread's, beside which registers hold what the epilogue needs.
int most_sums(const plan::Epilogue& e) { return e.general() || e.exchanging() || !e.folds().empty() ? 96 : 160; }

std::vector<Tiling> tilings(const Workload& w, const Config& base) {
  std::vector<Tiling> all;
  const auto bytes = static_cast<int>(base.element_bytes());
  for (const Shape& s : shapes)
    for (const int n : widths)
      for (const int step : step_bytes)
        for (const int stages : {2, 3, 4}) {
          Config c = base;
          c.tiling = {.m = s.m, .n = n, .k = step / bytes, .warpgroups = s.warpgroups, .stages = stages};
          if (c.sums() <= most_sums(w.epilogue) && fits_contraction(c, w.task)) all.push_back(c.tiling);
        }
  return all;
}

std::size_t shared_bytes(const Config& c, const plan::VisitorShape& v) {
  const Tiling& t = c.tiling;
  const shared_layout::Bytes step = t.k * static_cast<shared_layout::Bytes>(c.element_bytes());
  return static_cast<std::size_t>(
      shared_layout::sm80_cta_bytes({.stage = (t.m + c.products * t.n) * step,
                                     .stages = t.stages,
                                     .epilogue = static_cast<shared_layout::Bytes>(epilogue_bytes(c, v)),
                                     .warpgroups = t.warpgroups,
                                     .table = !c.pixels ? 0 : t.m * shared_layout::Bytes{c.volumes ? 16 : 8}}));
}

/// Registers of a thread that hold no accumulators: fragments, addresses, values of the epilogue. Reductions in a
/// kernel whose tiles wait for statistics also keep the values of a slice.
int registers_beside_sums(const Config& c, const plan::VisitorShape& v) {
  if (!exchanges(c.mode)) return own_registers;
  return own_registers + 8 * (v.exchanged + v.fold_words) + v.tile_folds + (v.exchanged > 0 ? 8 : 0);
}

int ctas_of_sm(const Config& c, const plan::VisitorShape& v, std::size_t shared, const plan::Device& d) {
  const int registers = std::min(most_registers, c.sums() + registers_beside_sums(c, v));
  const auto by_memory = static_cast<int>((d.shared_bytes + reserved_bytes) / (shared + reserved_bytes));
  return std::max(1, std::min({registers_of_sm / (registers * c.tiling.threads()), by_memory, 4}));
}

/// Whether there are as many CTAs as share its tiles, and enough for each to do. Quadruples of sums are handed over
/// four at a time (mma/split_k.cuh).
bool is_worth_sharing(const MmaPlan& p, const Workload& w, int in_flight) {
  const Config& c = p.config;
  const std::int64_t steps = depth_of(w.task) / phases_of(w.task).count / c.tiling.k;
  return c.mode != Mode::streamed && c.products * c.tiling.n % 32 == 0 && p.tiles <= in_flight / c.parts &&
         steps >= std::int64_t{fewest_steps_of_part} * c.parts;
}

int group_of(const MmaPlan& p, const plan::ConvTask& task) {
  const std::int64_t filters =
      p.config.products * task.conv.k * depth_of(task) * static_cast<std::int64_t>(p.config.element_bytes());
  const bool one_by_one = p.config.mode == Mode::none || exchanges(p.config.mode);
  return one_by_one && p.tiles_n > 2 && filters > static_cast<std::int64_t>(group_from_bytes) ? 8 : 0;
}

std::optional<Refusal> refuse_plan(const MmaPlan& p, const Workload& w, const plan::VisitorShape& v) {
  const auto refused = [](std::string reason, double wanted = 0, double available = 0) {
    Refusal r{Refusal::Scope::plan, {std::move(reason)}};
    return std::optional(std::move(r).exceeding(wanted, available));
  };
  if (p.shared_bytes > w.device.shared_bytes)
    return refused(fmt::format("shared memory: {} bytes of a CTA, and {} has {}", p.shared_bytes, w.device.name,
                               w.device.shared_bytes),
                   static_cast<double>(p.shared_bytes), static_cast<double>(w.device.shared_bytes));
  if (p.cooperative && p.at_once > p.ctas)
    return refused(fmt::format("resident: {} tiles wait for one another, and {} CTAs in flight", p.at_once, p.ctas),
                   p.at_once, p.ctas);
  if (p.workspace_bytes > largest_workspace)
    return refused(fmt::format("workspace: {} bytes, at most {}", p.workspace_bytes, largest_workspace),
                   static_cast<double>(p.workspace_bytes), static_cast<double>(largest_workspace));
  for (const int width : v.group_widths)
    if (w.task.conv.k > p.config.tiling.n && p.config.tiling.n % width != 0)
      return refused(fmt::format("groups: a tile of {} channels divides a group of {} of a row's channels",
                                 p.config.tiling.n, width));
  return {};
}

std::optional<MmaPlan> lay_out(const Config& config, const Workload& w, const plan::VisitorShape& visitor) {
  MmaPlan p;
  p.config = config;
  const Tiling& tiling = config.tiling;
  const Extents e = extents(w.task.contraction());
  const bool windows = p.config.resampling.pooled;
  const bool apart = w.epilogue.per_image() || w.task.batched || windows;  // a tile is of one image
  support::Narrowing to;
  p.images = to.as<int>("images", apart ? e.images : 1);
  p.rows = to.as<int>("rows", apart ? e.rows_per_image() : e.rows());
  const Phases phases = phases_of(w.task);
  const std::int64_t rows = windows ? 4 * divided_up(e.height, 2) * divided_up(e.width, 2)
                                    : (apart ? 1 : e.images) * phases.height * phases.width;
  p.tiles_m = to.as<int>(support::Checked("tiles of rows", divided_up(rows, tiling.m)) * phases.count);
  p.tiles_n = to.as<int>("tiles across", divided_up(e.cols, tiling.n));
  constexpr int beyond_last = 65535;  // a tile past the end still counts
  p.tiles = to.as<int>(support::Checked("tiles", p.images) * p.tiles_m * p.tiles_n + beyond_last) - beyond_last;
  if (to.beyond()) return std::nullopt;
  choose_waits(p, w.epilogue, visitor);
  p.config.group = group_of(p, w.task);
  p.threads = tiling.threads();
  p.shared_bytes = shared_bytes(p.config, visitor);
  p.config.ctas_of_sm = ctas_of_sm(p.config, visitor, p.shared_bytes, w.device);
  const int in_flight = w.device.sms * p.config.ctas_of_sm;
  choose_memory(p, w.epilogue, visitor, in_flight);
  if (config.parts > 1 && !is_worth_sharing(p, w, in_flight)) return std::nullopt;
  p.ctas = config.parts > 1 ? p.tiles * config.parts : p.cooperative ? std::min(p.tiles, in_flight) : p.tiles;
  lay_out_workspace(p, visitor, e.cols);
  p.pitched_output = !w.epilogue.wide_main();
  p.exclusive = p.cooperative;
  p.made_for_groups = w.task.conv.groups > 1;
  p.numerics.folds = p.config.mode == Mode::general || visitor.folds();
  p.predicted_us = predict_us(p, w);
  return p;
}

}  // namespace

PlanOverride fields_of(const MmaPlan& p) {
  const Tiling& t = p.config.tiling;
  PlanOverride all;
  all.fields = {{"tile", fmt::format("{}x{}x{}", t.m, t.n, t.k)},
                {"warps", fmt::format("{}", 4 * t.warpgroups)},
                {"stages", fmt::format("{}", t.stages)},
                {"parts", fmt::format("{}", p.config.parts)},
                {"mode", std::string(to_string(p.config.mode))}};
  return all;
}

namespace {

/// A tile without its depth stands for all depths.
bool agrees(const MmaPlan& p, const PlanOverride& fixed) {
  const PlanOverride own = fields_of(p);
  return std::ranges::all_of(fixed.fields, [&](const auto& field) {
    const auto found = own.fields.find(field.first);
    if (found == own.fields.end()) return false;
    return found->second == field.second || (field.first == "tile" && found->second.starts_with(field.second + "x"));
  });
}

}  // namespace

std::vector<Candidate> plans(const Family& family, const Workload& w, std::size_t form, const PlanOverride& fixed) {
  const plan::VisitorShape visitor = plan::visitor_shape(w.epilogue);
  const std::int64_t channels = w.task.conv.k;
  Config base;
  base.element = element_of(w.task), base.resampling = plan::resampling_of(w.epilogue.resampled);
  base.pixels = reads_pixels(w.task) || base.resampling.pooled;
  base.products = w.task.products;
  base.volumes = w.task.volume.has_value();
  base.phases = w.task.transposed.has_value();
  base.image = image_of(w.task), base.filter = filter_of(w.task);
  base.together = channels % 8 == 0 ? 8 : channels % 2 == 0 ? 2 : 1;
  std::vector<Candidate> all;
  for (const Mode mode : modes_of(w.epilogue))
    for (const Tiling& t : tilings(w, base))
      for (const int parts : parts_of_tiles) {
        Config c = base;
        c.mode = mode, c.tiling = t, c.parts = parts;
        auto p = lay_out(c, w, visitor);
        if (!p || !agrees(*p, fixed)) continue;
        p->family = &family, p->form = form;
        auto refusal = refuse_plan(*p, w, visitor);
        all.push_back({std::make_shared<MmaPlan>(*std::move(p)), std::move(refusal)});
      }
  return all;
}

}  // namespace unisono::families::mma
