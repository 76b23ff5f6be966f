#include "families/cutlass_evt/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

#include "families/cutlass_evt/builtin_fusion.hpp"
#include "families/cutlass_evt/candidates.hpp"
#include "families/cutlass_evt/generate.hpp"
#include "families/cutlass_evt/problem.hpp"
#include "families/cutlass_evt/standalone.hpp"
#include "families/cutlass_evt/visitors_of.hpp"
#include "unisono/error.hpp"
#include "unisono/params/cutlass_evt_params.cuh"

namespace unisono::families::cutlass_evt {
namespace {

const EvtPlan& own(const Plan& plan) { return static_cast<const EvtPlan&>(plan); }

static_assert(sizeof(CutlassEvtSecond) < sizeof(CutlassEvtGroups) &&
              sizeof(CutlassEvtWindow) < sizeof(CutlassEvtGroups));
constexpr std::size_t most_fields = (sizeof(ParameterBytes) - sizeof(CutlassEvtParams) - sizeof(CutlassEvtGroups)) / 8;

/// Where the visitors' fields begin.
std::size_t fields_at(const Plan& plan) {
  const Config& c = own(plan).config;
  return sizeof(CutlassEvtParams) + (c.convolution     ? sizeof(CutlassEvtWindow)
                                     : c.grouped       ? sizeof(CutlassEvtGroups)
                                     : c.products == 2 ? sizeof(CutlassEvtSecond)
                                                       : 0);
}

CutlassEvtWindow window_of(const Conv2d& c, const Extents& e) {
  const auto narrow = [](std::int64_t x) { return static_cast<int>(x); };
  CutlassEvtWindow to{};
  to.images = narrow(c.n), to.h = narrow(c.h), to.w = narrow(c.w);
  to.p = narrow(e.height), to.q = narrow(e.width), to.r = narrow(c.r), to.s = narrow(c.s);
  to.stride_h = narrow(c.stride.h), to.stride_w = narrow(c.stride.w);
  to.pad_top = narrow(c.pad.top), to.pad_left = narrow(c.pad.left);
  to.pad_bottom = narrow(c.pad.bottom), to.pad_right = narrow(c.pad.right);
  to.dilation_h = narrow(c.dilation.h), to.dilation_w = narrow(c.dilation.w);
  return to;
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
  std::vector<Candidate> candidates(const Workload& w, const PlanOverride& fixed) const override {
    return cutlass_evt::candidates(*this, w, fixed);
  }
  double cost(const Plan& plan, const Workload& w) const override { return predict_us(own(plan).config, w); }
  codegen::Kernel generate(const Plan& plan, const plan::Epilogue& epilogue,
                           const codegen::Options& options) const override {
    return cutlass_evt::generate(epilogue, own(plan).config, options);
  }

  plan::Expected<Standalone> standalone(const Plan& plan, const Launched& what, std::string_view name) const override {
    return cutlass_evt::standalone(own(plan), what, name);
  }

  plan::Expected<std::size_t> parameter_bytes(const Plan& plan, const codegen::Kernel& kernel) const override {
    if (kernel.fields.size() > most_fields)
      return plan::because(fmt::format("the epilogue reads {} operands; a kernel's parameters hold {}",
                                       kernel.fields.size(), most_fields));
    return fields_at(plan) + 8 * std::max<std::size_t>(1, kernel.fields.size());
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
  PlanOverride override_of(const Plan& plan) const override { return cutlass_evt::override_of(own(plan).config); }
  std::string kind(const Plan& plan) const override {
    const Config& c = own(plan).config;
    return fmt::format("{}x{} {}", c.tile_m, c.tile_n, is_2x(c.arch) ? to_string(c.arch) : to_string(c.schedule));
  }
};

ParameterBytes CutlassEvt::constants(const Plan& plan, const Launched& what) const {
  ParameterBytes bytes;
  CutlassEvtParams& p = bytes.at<CutlassEvtParams>();
  const Extents e = extents(what.task.contraction());
  p.m = e.rows_per_image(), p.n = e.cols, p.k = what.task.conv.c, p.batch = e.images;
  if (!what.task.batched) p.m = e.rows(), p.batch = 1;  // one B for all rows
  const Conv2d& conv = what.task.conv;                  // of a gradient the convolution whose filter's it is
  if (own(plan).config.convolution)
    bytes.at<CutlassEvtWindow>(sizeof(CutlassEvtParams)) = window_of(conv, what.task.gradient ? extents(conv) : e);
  if (own(plan).config.grouped) {
    CutlassEvtGroups& groups = bytes.at<CutlassEvtGroups>(sizeof(CutlassEvtParams));
    for (const std::int64_t rows : what.task.group_rows) groups.rows[groups.count++] = static_cast<int>(rows);
  }
  p.sms = own(plan).sms;
  p.workspace_bytes = static_cast<i64>(plan.workspace_bytes);
  return bytes;
}

void CutlassEvt::fill(Parameter& to, const Plan& plan, const Launched& what, const Tensors& at) const {
  CutlassEvtParams& p = to.bytes.at<CutlassEvtParams>();
  if (what.task.gradient && at.output_pitch != 0 && at.output_pitch != what.task.conv.c)
    throw Unsupported(fmt::format("{}: the filters' channels lie {} elements apart; CUTLASS's wgrad stores them dense",
                                  to_string(what.task.contraction()), at.output_pitch));
  const i64 row_a = what.task.columns_a || what.task.gradient ? p.m : p.k, row_b = what.task.columns_b ? p.n : p.k;
  p.pitch_a = at.activation_pitch != 0 ? at.activation_pitch : row_a;
  p.pitch_b = at.filter_pitch != 0 ? at.filter_pitch : row_b;
  p.pitch_d = at.output_pitch != 0 && !what.task.gradient ? at.output_pitch : p.n;
  p.step_a = at.step_a != 0 ? at.step_a : p.m * p.k;
  p.step_b = at.step_b != 0 ? at.step_b : p.n * p.k;
  to.put_address(offsetof(CutlassEvtParams, a), at.activation);
  to.put_address(offsetof(CutlassEvtParams, b), at.filter);
  if (own(plan).config.products == 2)
    to.put_address(sizeof(CutlassEvtParams) + offsetof(CutlassEvtSecond, b), at.filter1);
  to.put_address(offsetof(CutlassEvtParams, d), at.output);
  to.put_address(offsetof(CutlassEvtParams, side), at.side);
  to.put_fields(fields_at(plan), at.fields);
}

std::string CutlassEvt::reasons(const Plan& plan, const Workload& w) const {
  const Config& c = own(plan).config;
  std::string text = fmt::format(
      "family: cutlass_evt, asked for by name: CUTLASS's kernel and visitors, compiled by nvcc for {}\n"
      "tested: {}\n",
      code_of(c.arch), tested(c.arch));
  const auto visitors = visitors_of(w.epilogue, {}, visitor_set(c));
  if (!visitors) return text;
  if (const auto name = is_2x(c.arch) ? std::nullopt : builtin_fusion(*visitors))
    text += fmt::format("fusion: the same as {}\n", *name);
  if (visitors->is_atomic) text += "reductions: atomic, so the bits of sums differ from run to run\n";
  return text;
}

}  // namespace

const Family& family() {
  static const CutlassEvt instance;
  return instance;
}

std::string tested_architectures() {
  std::string text;
  for (const Arch arch : {Arch::sm90a, Arch::sm80, Arch::sm100a, Arch::sm120})
    text += fmt::format("{}arch={} {}", text.empty() ? "" : "; ", to_string(arch), tested(arch));
  return text;
}

}  // namespace unisono::families::cutlass_evt
