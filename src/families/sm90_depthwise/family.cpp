#include "families/sm90_depthwise/family.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "families/sm90/fields.hpp"
#include "families/sm90/gathering.hpp"
#include "families/sm90/parameters.hpp"
#include "families/sm90_depthwise/depthwise.hpp"
#include "families/sm90_depthwise/generate.hpp"
#include "families/sm90_depthwise/parameters.hpp"
#include "plan/function_calls.hpp"

namespace unisono::families::sm90_depthwise {
namespace {

const DepthwisePlan& own(const Plan& plan) { return static_cast<const DepthwisePlan&>(plan); }

std::string loads(const plan::ConvTask& task, const DepthwiseStrip& s) {
  const auto bytes = static_cast<std::int64_t>(size_of(task.conv.dtype_x)) * s.channels / s.multiplier;
  return fmt::format("{} channels at once, {} bytes, {}, without matrix instructions: {}", s.channels / s.multiplier,
                     bytes, s.taps_h > 0 ? "each image row of a thread's strip once" : "each tap by itself",
                     task.transposed ? fmt::format("{} groups of channels, taps in reverse", task.transposed->groups)
                                     : sm90::why_gathered(task)->first());
}

/// Nothing that these kernels do is Hopper's alone; their times are measured there.
std::optional<Refusal> refuse_device(const plan::Device& d) {
  if (d.major >= 8) return std::nullopt;
  return Refusal{Refusal::Scope::device,
                 {fmt::format("device: {} has compute capability {}.{}; the depthwise kernels are for 8.0 and later",
                              d.name, d.major, d.minor)}};
}

class Sm90Depthwise final : public Family {
 public:
  std::string_view name() const override { return "sm90_depthwise"; }
  Capability capability() const override { return {.major = 8, .minor = 0, .and_later = true}; }
  std::span<const plan::PlanField> fields() const override { return sm90::plan_fields(); }
  void check(const PlanOverride& fixed) const override { sm90::resolve(fixed); }

  std::optional<Refusal> can_implement(const Workload& w) const override {
    if (!is_depthwise(w.task) || w.task.gradient)
      return Refusal{Refusal::Scope::foreign, {"contraction: no depthwise convolution"}};
    if (auto refusal = refuse_device(w.device)) return refusal;
    const auto problem = sm90::make_problem(as_run(w.task), w.epilogue);
    return problem ? refuse_depthwise(*problem) : problem.refusal();
  }
  std::vector<Candidate> candidates(const Workload& w, const PlanOverride& fixed) const override {
    std::vector<Candidate> all;
    for (DepthwisePlan& p : depthwise_candidates(w.task, w.epilogue, w.device, fixed)) {
      p.family = this;
      all.push_back({std::make_shared<const DepthwisePlan>(std::move(p))});
    }
    return all;
  }
  double cost(const Plan& plan, const Workload& w) const override {
    return predict_depthwise_us(own(plan), sm90::make_problem(as_run(w.task), w.epilogue).value(), w.device);
  }
  codegen::Kernel generate(const Plan& plan, const plan::Epilogue& epilogue,
                           const codegen::Options& options) const override {
    return sm90_depthwise::generate(epilogue, own(plan).config, options);
  }

  plan::Expected<std::size_t> parameter_bytes(const Plan&, const codegen::Kernel& kernel) const override {
    return sm90_depthwise::parameter_bytes(kernel.fields.size());
  }
  ParameterBytes constants(const Plan& plan, const Launched& what) const override {
    ParameterBytes bytes;
    bytes.at<DepthwiseParams>().geometry = sm90_depthwise::geometry(as_run(what.task), own(plan));
    return bytes;
  }
  void fill(Parameter& to, const Plan& plan, const Launched& what, const Tensors& tensors) const override {
    sm90_depthwise::fill(to, as_run(what.task), own(plan), tensors);
  }
  void place_workspace(ParameterBytes&, const Plan&, const plan::Epilogue&, std::uint64_t) const override {}

  std::string title(const Plan& plan) const override { return to_string(own(plan).config); }
  std::string describe(const Plan& plan) const override { return sm90_depthwise::describe(own(plan)); }
  std::string reasons(const Plan& plan, const Workload& w) const override {
    const DepthwiseConfig& c = own(plan).config;
    return fmt::format("{}loads: {}\nmode: {}\n", c.element == DType::tf32 ? "products: of f32, added in f32\n" : "",
                       loads(w.task, c.strip),
                       c.mode == sm90::NormMode::general
                           ? "general: rows have their own values, elements know where they are"
                           : "none: no normalisation, tiles are stored as they are finished") +
           (w.epilogue.ahead_of_stages().tensors.empty() && w.epilogue.reads.tensors.empty()
                ? ""
                : "operands [m,n]: by ordinary loads, before their use\n") +
           plan::describe_calls(w.epilogue, c.strip.channels, "a thread has this many channels of a pixel");
  }
  PlanOverride override_of(const Plan& plan) const override {
    const DepthwiseConfig& c = own(plan).config;
    PlanOverride all;
    all.fields = {{"tile", fmt::format("{}x{}", c.tile_m, c.tile_n)},
                  {"load", "depthwise"},
                  {"thread", fmt::format("{}x{}x{}", c.strip.rows, c.strip.pixels, c.strip.channels)},
                  {"mode", std::string(to_string(c.mode))}};
    return all;
  }
  std::string kind(const Plan& plan) const override {
    const DepthwiseConfig& c = own(plan).config;
    return fmt::format("{}x{}", c.tile_m, c.tile_n);
  }
};

}  // namespace

const Family& family() {
  static const Sm90Depthwise only;
  return only;
}

}  // namespace unisono::families::sm90_depthwise
