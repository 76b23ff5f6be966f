#include "families/plain/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "families/interface/rare_contractions.hpp"
#include "families/plain/cost.hpp"
#include "families/plain/generate.hpp"
#include "families/plain/parameters.hpp"
#include "families/plain/problem.hpp"
#include "families/plain/space.hpp"
#include "plan/function_calls.hpp"

namespace unisono::families::plain {
namespace {

const PlainPlan& own(const Plan& plan) { return static_cast<const PlainPlan&>(plan); }

std::string_view name_in_memory(DType t) { return t == DType::tf32 ? "f32" : to_string(t); }

class Plain final : public Family {
 public:
  std::string_view name() const override { return "plain"; }
  bool is_last_resort(const plan::Device&) const override { return true; }
  Capability capability() const override { return {7, 5, true}; }
  std::span<const plan::PlanField> fields() const override { return plan_fields(); }

  std::optional<Refusal> can_implement(const Workload& w) const override {
    if (auto refusal = refuse_rare(w.task)) return refusal;
    if (auto refusal = refuse_device(w.device)) return refusal;
    auto reasons = refuse(w);
    if (reasons.empty()) return std::nullopt;
    return Refusal{Refusal::Scope::problem, std::move(reasons)};
  }
  std::vector<Candidate> candidates(const Workload& w, const PlanOverride& fixed) const override {
    std::vector<Candidate> all;
    for (PlainPlan& p : plans(w)) {
      p.family = this;
      const PlanOverride named = override_of(p);
      const auto agrees = [&](const auto& field) {
        const auto own = named.fields.find(field.first);
        return own != named.fields.end() && own->second == field.second;
      };
      if (std::ranges::all_of(fixed.fields, agrees)) all.push_back({std::make_shared<const PlainPlan>(std::move(p))});
    }
    return all;
  }
  double cost(const Plan& plan, const Workload& w) const override { return predict_us(own(plan), w); }
  codegen::Kernel generate(const Plan& plan, const plan::Epilogue& epilogue,
                           const codegen::Options& options) const override {
    return plain::generate(epilogue, own(plan).config, options);
  }

  plan::Expected<std::size_t> parameter_bytes(const Plan&, const codegen::Kernel& kernel) const override {
    return plain::parameter_bytes(kernel.fields.size());
  }
  ParameterBytes constants(const Plan& plan, const Launched& what) const override {
    ParameterBytes bytes;
    PlainConvParams& p = bytes.at<PlainConvParams>();
    p.geometry = geometry(what.task, own(plan)), p.norm = norm(what);
    return bytes;
  }
  void fill(Parameter& to, const Plan& plan, const Launched& what, const Tensors& tensors) const override {
    plain::fill(to, own(plan), what, tensors);
  }
  void place_workspace(ParameterBytes& to, const Plan& plan, const plan::Epilogue&, std::uint64_t base) const override {
    plain::place_workspace(to.at<PlainConvParams>(), own(plan), base);
  }

  std::string title(const Plan& plan) const override {
    const Config& c = own(plan).config;
    return fmt::format("plain {}x{}{}{}, {} by {}{} without tensor cores", c.tiling.tile_m, c.tiling.tile_n,
                       c.tiling.direct ? " direct" : "",
                       c.mode == Config::Mode::none ? "" : fmt::format(" {}", to_string(c.mode)),
                       name_in_memory(c.image), c.products > 1 ? "two of " : "", name_in_memory(c.filter));
  }
  std::string describe(const Plan& plan) const override {
    return fmt::format("{}, {} CTAs of {} threads, {} KB", title(plan), plan.ctas, plan.threads,
                       (plan.shared_bytes + 512) / 1024);
  }
  std::string reasons(const Plan& plan, const Workload& w) const override;
  PlanOverride override_of(const Plan& plan) const override {
    const Config& c = own(plan).config;
    PlanOverride all;
    all.fields = {{"tile", fmt::format("{}x{}", c.tiling.tile_m, c.tiling.tile_n)},
                  {"mode", std::string(to_string(c.mode))}};
    return all;
  }
  std::string kind(const Plan& plan) const override {
    const Tiling& t = own(plan).config.tiling;
    return fmt::format("{}x{}", t.tile_m, t.tile_n);
  }
};

std::string Plain::reasons(const Plan& plan, const Workload& w) const {
  const Config& c = own(plan).config;
  const double tensor_cores = tensor_core_us(w);
  std::string text = fmt::format(
      "family: plain, the last of all: ordinary multiply-adds of f32; predicted {:.1f} times what tensor cores would "
      "take ({:.1f} us)\n",
      plan.predicted_us / tensor_cores, tensor_cores);
  text += c.tiling.direct ? "loads: each output reads its operands by itself, through L1\n"
                          : "loads: single elements, widened to f32 in shared memory\n";
  if (c.mode == Config::Mode::normalises || c.mode == Config::Mode::normalises_rows)
    text += fmt::format("mode: {}: values wait in memory, in f32, while mean and variance are computed from them\n",
                        to_string(c.mode));
  return text + plan::describe_calls(w.epilogue, 1, "the family computes elements one by one");
}

}  // namespace

const Family& family() {
  static const Plain instance;
  return instance;
}

}  // namespace unisono::families::plain
