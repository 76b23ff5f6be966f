#include "families/sm90_conv/family.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "families/interface/rare_contractions.hpp"
#include "families/sm90/fields.hpp"
#include "families/sm90/parameters.hpp"
#include "families/sm90/problem.hpp"
#include "families/sm90_conv/conv.hpp"
#include "families/sm90_conv/cost.hpp"
#include "families/sm90_conv/generate.hpp"
#include "families/sm90_conv/parameters.hpp"
#include "families/sm90_conv/planes.hpp"

namespace unisono::families::sm90_conv {
namespace {

const ConvPlan& own(const Plan& plan) { return static_cast<const ConvPlan&>(plan); }

class Sm90Conv final : public Family {
 public:
  std::string_view name() const override { return "sm90_conv"; }
  std::span<const plan::PlanField> fields() const override { return sm90::plan_fields(); }
  void check(const PlanOverride& fixed) const override { sm90::resolve(fixed); }
  bool multiplies_two(const plan::Device& device) const override { return !sm90::refuse_device(device); }

  std::optional<Refusal> can_implement(const Workload& w) const override {
    if (auto refusal = refuse_rare(w.task)) return refusal;
    if (auto refusal = sm90::refuse_device(w.device)) return refusal;
    return sm90::refuse_problem(w.task, w.epilogue);
  }
  std::vector<Candidate> candidates(const Workload& w, const PlanOverride& fixed) const override {
    std::vector<Candidate> all;
    for (ConvCandidate& c : conv_candidates(w, fixed)) {
      c.plan.family = this;
      all.push_back({std::make_shared<const ConvPlan>(std::move(c.plan))});
      all.back().refusal = std::move(c.refusal);
    }
    return all;
  }
  double cost(const Plan& plan, const Workload& w) const override {
    const ConvPlan& p = own(plan);
    return predict_us(p, sm90::make_problem(as_planned(w.task, p.config), w.form_of(p)).value(), w.device);
  }
  codegen::Kernel generate(const Plan& plan, const plan::Epilogue& epilogue,
                           const codegen::Options& options) const override {
    return sm90_conv::generate(epilogue, own(plan).config, options);
  }

  plan::Expected<std::size_t> parameter_bytes(const Plan& plan, const codegen::Kernel& kernel) const override {
    return sm90::checked_parameter_bytes(kernel.fields.size(), maps_between(own(plan).config));
  }
  ParameterBytes constants(const Plan& plan, const Launched& what) const override {
    ParameterBytes bytes;
    bytes.at<ConvParams>().geometry = sm90_conv::geometry(as_planned(what.task, own(plan).config), own(plan));
    return bytes;
  }
  void fill(Parameter& to, const Plan& plan, const Launched& what, const Tensors& tensors) const override {
    sm90_conv::fill(to, as_planned(what.task, own(plan).config), own(plan), what.epilogue, what.kernel, tensors);
  }
  void place_workspace(ParameterBytes& to, const Plan& plan, const plan::Epilogue& epilogue,
                       std::uint64_t base) const override {
    sm90_conv::place_workspace(to.at<ConvParams>(), own(plan), epilogue, base);
    place_converted(to, own(plan), base);
  }
  std::vector<Site> workspace_maps(const Plan& plan) const override { return converted_maps(own(plan)); }

  std::string title(const Plan& plan) const override { return to_string(own(plan).config); }
  std::string describe(const Plan& plan) const override { return sm90_conv::describe(own(plan)); }
  std::string reasons(const Plan& plan, const Workload& w) const override {
    return sm90_conv::reasons(own(plan), as_planned(w.task, own(plan).config), w.form_of(plan));
  }
  PlanOverride override_of(const Plan& plan) const override { return sm90_conv::override_of(own(plan).config); }
  std::string kind(const Plan& plan) const override {
    const ConvConfig& c = own(plan).config;
    return fmt::format("{}x{} {} {} {} {}", c.tile.m, c.tile.n, to_string(c.schedule.order), to_string(c.mode()),
                       c.two_dimensional(), c.window() != nullptr);
  }
};

}  // namespace

const Family& family() {
  static const Sm90Conv only;
  return only;
}

}  // namespace unisono::families::sm90_conv
