#include "families/cutlass_evt/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "families/cutlass_evt/problem.hpp"
#include "families/cutlass_evt/visitors_of.hpp"
#include "families/cutlass_evt/warps.hpp"
#include "support/dtypes.hpp"

namespace unisono::families::cutlass_evt {
namespace {

struct Shape {
  int tile_m, tile_n, cluster_m, cluster_n;
  Schedule schedule;
};
constexpr std::array shapes_3x{
    Shape{128, 128, 1, 1, Schedule::cooperative}, Shape{128, 256, 1, 1, Schedule::cooperative},
    Shape{256, 128, 1, 1, Schedule::cooperative}, Shape{128, 128, 2, 1, Schedule::cooperative},
    Shape{128, 256, 2, 1, Schedule::cooperative}, Shape{128, 64, 1, 1, Schedule::cooperative},
    Shape{64, 128, 1, 1, Schedule::pingpong},     Shape{128, 128, 1, 1, Schedule::pingpong},
    Shape{64, 64, 1, 1, Schedule::pingpong},      Shape{64, 128, 2, 1, Schedule::pingpong},
};

// Two accumulators leave no registers for larger tiles
constexpr std::array shapes_dual{
    Shape{128, 64, 1, 1, Schedule::cooperative}, Shape{64, 128, 1, 1, Schedule::cooperative},
    Shape{256, 64, 1, 1, Schedule::cooperative}, Shape{64, 256, 1, 1, Schedule::cooperative},
    Shape{64, 64, 1, 1, Schedule::cooperative},
};
constexpr std::array shapes_2x{
    Shape{128, 128, 1, 1, Schedule::cooperative}, Shape{128, 256, 1, 1, Schedule::cooperative},
    Shape{256, 128, 1, 1, Schedule::cooperative}, Shape{128, 64, 1, 1, Schedule::cooperative},
    Shape{64, 128, 1, 1, Schedule::cooperative},  Shape{64, 64, 1, 1, Schedule::cooperative},
};

constexpr std::array shapes_sm100{
    Shape{128, 128, 1, 1, Schedule::warp_specialized},
    Shape{128, 256, 1, 1, Schedule::warp_specialized},
    Shape{128, 64, 1, 1, Schedule::warp_specialized},
    Shape{64, 128, 1, 1, Schedule::warp_specialized},
};
constexpr std::array convolutions_3x{
    Shape{128, 128, 1, 1, Schedule::warp_specialized}, Shape{64, 256, 1, 1, Schedule::warp_specialized},
    Shape{64, 128, 1, 1, Schedule::warp_specialized},  Shape{128, 64, 1, 1, Schedule::warp_specialized},
    Shape{64, 64, 1, 1, Schedule::warp_specialized},
};

// Columns that divide the channels, and that the epilogue's 32 divide
constexpr std::array gradients_3x{
    Shape{128, 128, 1, 1, Schedule::warp_specialized}, Shape{64, 256, 1, 1, Schedule::warp_specialized},
    Shape{64, 128, 1, 1, Schedule::warp_specialized},  Shape{128, 64, 1, 1, Schedule::warp_specialized},
    Shape{64, 64, 1, 1, Schedule::warp_specialized},   Shape{128, 96, 1, 1, Schedule::warp_specialized},
    Shape{128, 32, 1, 1, Schedule::warp_specialized},  Shape{128, 16, 1, 1, Schedule::warp_specialized},
};

DType in_memory(DType t) { return t == DType::f32 ? DType::tf32 : t; }

const std::string* value_of(const PlanOverride& fixed, std::string_view name) {
  const auto found = fixed.fields.find(std::string(name));
  return found == fixed.fields.end() ? nullptr : &found->second;
}

Arch arch_of(const Workload& w, const PlanOverride& fixed) {
  const std::string* named = value_of(fixed, "arch");
  if (named == nullptr) return w.task.products == 2 && !is_2x(usual_arch(w.device)) ? Arch::sm80 : usual_arch(w.device);
  for (const Arch arch : {Arch::sm80, Arch::sm90a, Arch::sm100a})
    if (*named == to_string(arch)) return arch;
  return Arch::sm120;
}

Schedule schedule_of(std::string_view text) {
  if (text == "warpspecialized") return Schedule::warp_specialized;
  return text == "pingpong" ? Schedule::pingpong : Schedule::cooperative;
}

/// A configuration with the fields that are fixed in place of its own.
Config with(Config c, const PlanOverride& fixed, const Family& family) {
  const auto value = [&](std::string_view name) { return value_of(fixed, name); };
  const auto numbers = [&](std::string_view name, int& first, int* second = nullptr) {
    const std::string* text = value(name);
    if (text == nullptr) return;
    const auto field = std::ranges::find(family.fields(), name, &plan::PlanField::name);
    const std::vector<int> n = plan::numbers_of(*field, *text);
    first = n[0];
    if (second != nullptr) *second = n[1];
  };
  numbers("tile", c.tile_m, &c.tile_n), numbers("cluster", c.cluster_m, &c.cluster_n);
  numbers("subtile", c.subtile_m, &c.subtile_n), numbers("stages", c.stages);
  if (const auto* text = value("depth")) c.tile_k = std::stoi(*text);
  if (const auto* text = value("swizzle_size")) c.swizzle = std::stoi(*text);
  if (const auto* text = value("order")) c.schedule = schedule_of(*text);
  if (const auto* text = value("raster")) c.raster = *text == "rows" ? Raster::rows : Raster::columns;
  if (const auto* text = value("reductions")) c.atomic = *text == "atomic";
  return c;
}

std::int64_t divided_up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

}  // namespace

// Tiles that are multiplied at once by all SMs, at three quarters of what the tensor cores do, or memory's time.
// mma.sync does not reach that from Hopper on
double predict_us(const Config& c, const Workload& w) {
  const Extents e = extents(w.task.contraction());
  const double tiles =
      static_cast<double>(divided_up(e.rows_per_image(), c.tile_m) * divided_up(e.cols, c.tile_n) * e.images);
  const double waves = std::ceil(tiles / w.device.sms);
  const double flop = 2.0 * c.products * c.tile_m * c.tile_n * static_cast<double>(depth(w.task.contraction()));
  const double efficiency = (is_2x(c.arch) && w.device.major >= 9 ? 0.45 : 0.75) *
                            std::min(1.0, c.tile_m * c.tile_n / (128.0 * 128.0) * 0.75 + 0.25);
  const double compute = waves * flop / (w.device.tensor_tflops / w.device.sms * 1e6 * efficiency);
  const Conv2d& conv = w.task.conv;
  const double bytes = static_cast<double>(conv.n * conv.h * conv.w * conv.c + e.cols * depth(w.task.contraction()) +
                                           e.rows() * e.cols) *
                       static_cast<double>(size_of(c.a));
  return 5.0 + std::max(compute, bytes / (w.device.memory_tbps * 1e6));
}

namespace {

PlanPointer planned(const Family& family, const Config& c, const Visitors& v, const Workload& w) {
  auto p = std::make_shared<EvtPlan>();
  p->family = &family;
  p->config = c;
  p->threads = 384, p->ctas = w.device.sms, p->cluster = c.cluster_m * c.cluster_n, p->sms = w.device.sms;
  if (is_2x(c.arch) || c.convolution) p->ctas = static_cast<int>(tiles_of(c, w.task));
  if (is_2x(c.arch))
    p->threads = warps_of(c).threads();
  else if (c.convolution)
    p->threads = 256;
  p->shared_bytes = epilogue_bytes(c, v) + static_cast<std::size_t>(std::max(2, c.stages)) * stage_bytes(c);
  p->workspace_bytes = workspace_bytes(c, v, w.task, w.device.sms);
  p->predicted_us = predict_us(c, w);
  return p;
}

Candidate refused_plan(Refusal refusal) {
  refusal.scope = Refusal::Scope::plan;
  return {nullptr, std::move(refusal)};
}

// The configuration that a shape leaves open
Config config_of(const Shape& s, Arch arch, const Workload& w) {
  const bool word = support::is_multiplied_as_tf32(w.task.conv.dtype_x);
  return {.arch = arch,
          .convolution = !is_product(w.task),
          .transposed = w.task.transposed.has_value(),
          .gradient = w.task.gradient.has_value(),
          .grouped = !w.task.group_rows.empty(),
          .products = w.task.products,
          .a = in_memory(w.task.conv.dtype_x),
          .b = in_memory(w.task.conv.dtype_w),
          .columns_a = w.task.columns_a,
          .columns_b = w.task.columns_b,
          .tile_m = s.tile_m,
          .tile_n = s.tile_n,
          .tile_k = word || is_2x(arch) ? 32 : 64,
          .cluster_m = s.cluster_m,
          .cluster_n = s.cluster_n,
          .schedule = s.schedule};
}

Candidate candidate(const Family& family, Config c, const Workload& w) {
  const auto visitors = visitors_of(w.epilogue, {}, visitor_set(c));
  if (!visitors) return refused_plan(visitors.refusal());
  if (is_2x(c.arch) && c.stages == 0) c.stages = fitting_stages(c, *visitors, w.device);
  if (auto refusal = refuse(c, *visitors, w)) return {nullptr, std::move(refusal)};
  return {planned(family, c, *visitors, w)};
}

}  // namespace

std::vector<Candidate> candidates(const Family& family, const Workload& w, const PlanOverride& fixed) {
  const Arch arch = arch_of(w, fixed);
  if (auto refusal = refuse_arch(arch, w.device)) return {refused_plan(*std::move(refusal))};
  if (auto refusal = refuse_fields(arch, fixed)) return {refused_plan(*std::move(refusal))};
  std::vector<Candidate> all;
  std::vector<Config> seen;
  const auto add = [&](const Shape& s) {
    const Config c = with(config_of(s, arch, w), fixed, family);
    if (std::ranges::find(seen, c) != seen.end()) return;
    seen.push_back(c);
    all.push_back(candidate(family, c, w));
  };
  if (is_2x(arch) && w.task.products == 2)
    std::ranges::for_each(shapes_dual, add);
  else if (is_2x(arch))
    std::ranges::for_each(shapes_2x, add);
  else if (arch == Arch::sm100a)
    std::ranges::for_each(shapes_sm100, add);
  else if (w.task.gradient)
    std::ranges::for_each(gradients_3x, add);
  else if (!is_product(w.task))
    std::ranges::for_each(convolutions_3x, add);
  else
    std::ranges::for_each(shapes_3x, add);
  std::ranges::stable_sort(all, [](const Candidate& x, const Candidate& y) {
    if (x.is_legal() != y.is_legal()) return x.is_legal();
    return x.is_legal() && x.plan->predicted_us < y.plan->predicted_us;
  });
  return all;
}

}  // namespace unisono::families::cutlass_evt
