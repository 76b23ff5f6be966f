#include "families/cutlass_evt/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

#include "families/cutlass_evt/builtin_fusion.hpp"
#include "families/cutlass_evt/generate.hpp"
#include "families/cutlass_evt/problem.hpp"
#include "families/cutlass_evt/standalone.hpp"
#include "families/cutlass_evt/visitors_of.hpp"
#include "unisono/params/cutlass_evt_params.cuh"

namespace unisono::families::cutlass_evt {
namespace {

const EvtPlan& own(const Plan& plan) { return static_cast<const EvtPlan&>(plan); }

DType in_memory(DType t) { return t == DType::f32 ? DType::tf32 : t; }

constexpr std::size_t most_fields = (sizeof(ParameterBytes) - sizeof(CutlassEvtParams)) / 8;

struct Shape {
  int tile_m, tile_n, cluster_m, cluster_n;
  Schedule schedule;
};
constexpr std::array shapes{
    Shape{128, 128, 1, 1, Schedule::cooperative}, Shape{128, 256, 1, 1, Schedule::cooperative},
    Shape{256, 128, 1, 1, Schedule::cooperative}, Shape{128, 128, 2, 1, Schedule::cooperative},
    Shape{128, 256, 2, 1, Schedule::cooperative}, Shape{128, 64, 1, 1, Schedule::cooperative},
    Shape{64, 128, 1, 1, Schedule::pingpong},     Shape{128, 128, 1, 1, Schedule::pingpong},
    Shape{64, 64, 1, 1, Schedule::pingpong},      Shape{64, 128, 2, 1, Schedule::pingpong},
};

/// A configuration with the fields that are fixed in place of its own.
Config with(Config c, const Override& fixed, const Family& family) {
  const auto value = [&](std::string_view name) -> const std::string* {
    const auto found = fixed.fields.find(std::string(name));
    return found == fixed.fields.end() ? nullptr : &found->second;
  };
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
  if (const auto* text = value("order")) c.schedule = *text == "pingpong" ? Schedule::pingpong : Schedule::cooperative;
  if (const auto* text = value("raster")) c.raster = *text == "rows" ? Raster::rows : Raster::columns;
  if (const auto* text = value("reductions")) c.atomic = *text == "atomic";
  return c;
}

std::int64_t divided_up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

// Tiles that are multiplied at once by all SMs, at three quarters of what the tensor cores do, or memory's time
double predict_us(const Config& c, const Workload& w) {
  const Extents e = extents(w.task.contraction());
  const double tiles =
      static_cast<double>(divided_up(e.rows_per_image(), c.tile_m) * divided_up(e.cols, c.tile_n) * e.images);
  const double waves = std::ceil(tiles / w.device.sms);
  const double flop = 2.0 * c.tile_m * c.tile_n * static_cast<double>(w.task.conv.c);
  const double efficiency = 0.75 * std::min(1.0, c.tile_m * c.tile_n / (128.0 * 128.0) * 0.75 + 0.25);
  const double compute = waves * flop / (w.device.tensor_tflops / w.device.sms * 1e6 * efficiency);
  const double bytes =
      static_cast<double>((e.rows() + e.cols) * w.task.conv.c + e.rows() * e.cols) * static_cast<double>(size_of(c.a));
  return 5.0 + std::max(compute, bytes / (w.device.memory_tbps * 1e6));
}

PlanPointer planned(const Family& family, const Config& c, const Visitors& v, const Workload& w) {
  auto p = std::make_shared<EvtPlan>();
  p->family = &family;
  p->config = c;
  p->threads = 384, p->ctas = w.device.sms, p->cluster = c.cluster_m * c.cluster_n, p->sms = w.device.sms;
  p->shared_bytes = epilogue_bytes(c, v) + static_cast<std::size_t>(std::max(2, c.stages)) * stage_bytes(c);
  p->workspace_bytes = workspace_bytes(c, v, w.task);
  p->predicted_us = predict_us(c, w);
  return p;
}

class CutlassEvt final : public Family {
 public:
  std::string_view name() const override { return "cutlass_evt"; }
  bool has_to_be_named() const override { return true; }
  std::span<const plan::PlanField> fields() const override { return plan_fields(); }

  std::optional<Refusal> can_implement(const Workload& w) const override {
    if (auto refusal = refuse_device(w.device)) return refusal;
    auto reasons = refuse(w);
    if (reasons.empty()) return std::nullopt;
    return Refusal{Refusal::Scope::problem, std::move(reasons)};
  }
  std::vector<Candidate> candidates(const Workload& w, const Override& fixed) const override;
  double cost(const Plan& plan, const Workload& w) const override { return predict_us(own(plan).config, w); }
  codegen::Kernel generate(const Plan& plan, const plan::Epilogue& epilogue,
                           const codegen::Options& options) const override {
    return cutlass_evt::generate(epilogue, own(plan).config, options);
  }

  plan::Expected<Standalone> standalone(const Plan& plan, const Launched& what, std::string_view name) const override {
    return cutlass_evt::standalone(own(plan), what, name);
  }

  plan::Expected<std::size_t> parameter_bytes(const Plan&, const codegen::Kernel& kernel) const override {
    if (kernel.fields.size() > most_fields)
      return plan::because(fmt::format("the epilogue reads {} operands; a kernel's parameters hold {}",
                                       kernel.fields.size(), most_fields));
    return sizeof(CutlassEvtParams) + 8 * std::max<std::size_t>(1, kernel.fields.size());
  }
  ParameterBytes constants(const Plan& plan, const Launched& what) const override;
  void fill(Parameter& to, const Plan& plan, const Launched& what, const Tensors& tensors) const override;
  void place_workspace(ParameterBytes& to, const Plan&, const plan::Epilogue&, std::uint64_t base) const override {
    to.at<CutlassEvtParams>().workspace = reinterpret_cast<void*>(base);
  }

  std::string title(const Plan& plan) const override { return title_of(own(plan)); }
  std::string describe(const Plan& plan) const override {
    return fmt::format("{}, at most {} CTAs of {} threads", title(plan), plan.ctas, plan.threads);
  }
  std::string reasons(const Plan& plan, const Workload& w) const override;
  Override override_of(const Plan& plan) const override { return cutlass_evt::override_of(own(plan).config); }
  std::string kind(const Plan& plan) const override {
    const Config& c = own(plan).config;
    return fmt::format("{}x{} {}", c.tile_m, c.tile_n, to_string(c.schedule));
  }
};

std::vector<Candidate> CutlassEvt::candidates(const Workload& w, const Override& fixed) const {
  std::vector<Candidate> all;
  std::vector<Config> seen;
  for (const Shape& s : shapes) {
    Config c{.a = in_memory(w.task.conv.dtype_x),
             .b = in_memory(w.task.conv.dtype_w),
             .columns_a = w.task.columns_a,
             .columns_b = w.task.columns_b,
             .tile_m = s.tile_m,
             .tile_n = s.tile_n,
             .tile_k = size_of(w.task.conv.dtype_x) == 4 ? 32 : 64,
             .cluster_m = s.cluster_m,
             .cluster_n = s.cluster_n,
             .schedule = s.schedule};
    c = with(c, fixed, *this);
    if (std::ranges::find(seen, c) != seen.end()) continue;
    seen.push_back(c);
    const auto visitors = visitors_of(w.epilogue, {}, true, c.atomic);
    if (!visitors) {
      Refusal refusal = visitors.refusal();
      refusal.scope = Refusal::Scope::plan;
      all.push_back({nullptr, std::move(refusal)});
      continue;
    }
    if (auto refusal = refuse(c, *visitors, w)) {
      all.push_back({nullptr, std::move(refusal)});
      continue;
    }
    all.push_back({planned(*this, c, *visitors, w)});
  }
  std::ranges::stable_sort(all, [](const Candidate& x, const Candidate& y) {
    if (x.is_legal() != y.is_legal()) return x.is_legal();
    return x.is_legal() && x.plan->predicted_us < y.plan->predicted_us;
  });
  return all;
}

ParameterBytes CutlassEvt::constants(const Plan& plan, const Launched& what) const {
  ParameterBytes bytes;
  CutlassEvtParams& p = bytes.at<CutlassEvtParams>();
  const Extents e = extents(what.task.contraction());
  p.m = e.rows_per_image(), p.n = e.cols, p.k = what.task.conv.c, p.batch = e.images;
  if (!what.task.batched) p.m = e.rows(), p.batch = 1;  // one B for all rows
  p.sms = own(plan).sms;
  p.workspace_bytes = static_cast<i64>(plan.workspace_bytes);
  return bytes;
}

void CutlassEvt::fill(Parameter& to, const Plan&, const Launched& what, const Tensors& at) const {
  CutlassEvtParams& p = to.bytes.at<CutlassEvtParams>();
  const i64 row_a = what.task.columns_a ? p.m : p.k, row_b = what.task.columns_b ? p.n : p.k;
  p.pitch_a = at.activation_pitch != 0 ? at.activation_pitch : row_a;
  p.pitch_b = at.filter_pitch != 0 ? at.filter_pitch : row_b;
  p.pitch_d = at.output_pitch != 0 ? at.output_pitch : p.n;
  p.step_a = at.step_a != 0 ? at.step_a : p.m * p.k;
  p.step_b = at.step_b != 0 ? at.step_b : p.n * p.k;
  to.put_address(offsetof(CutlassEvtParams, a), at.activation);
  to.put_address(offsetof(CutlassEvtParams, b), at.filter);
  to.put_address(offsetof(CutlassEvtParams, d), at.output);
  to.put_address(offsetof(CutlassEvtParams, side), at.side);
  to.put_fields(sizeof(CutlassEvtParams), at.fields);
}

std::string CutlassEvt::reasons(const Plan& plan, const Workload& w) const {
  const Config& c = own(plan).config;
  std::string text =
      "family: cutlass_evt, asked for by name: CUTLASS's kernel and visitors, compiled by nvcc; run on sm_90a\n";
  const auto visitors = visitors_of(w.epilogue, {}, true, c.atomic);
  if (!visitors) return text;
  if (const auto name = builtin_fusion(*visitors)) text += fmt::format("fusion: the same as {}\n", *name);
  if (visitors->is_atomic) text += "reductions: atomic, so the bits of sums differ from run to run\n";
  return text;
}

}  // namespace

const Family& family() {
  static const CutlassEvt instance;
  return instance;
}

}  // namespace unisono::families::cutlass_evt
