#include "families/mma/family.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "families/interface/rare_contractions.hpp"
#include "families/mma/cost.hpp"
#include "families/mma/epilogue.hpp"
#include "families/mma/generate.hpp"
#include "families/mma/parameters.hpp"
#include "families/mma/problem.hpp"
#include "families/mma/space.hpp"
#include "plan/function_calls.hpp"

namespace unisono::families::mma {
namespace {

const MmaPlan& own(const Plan& plan) { return static_cast<const MmaPlan&>(plan); }

/// Forms in the order in which they are tried: a normalisation, which passes over a tile's sums once, ahead of general
/// ones.
std::vector<std::vector<std::size_t>> order_of(const Workload& w) {
  std::vector<std::vector<std::size_t>> order(2);
  for (std::size_t i = 0; i < w.forms.size(); ++i) order[w.forms[i].general() ? 1 : 0].push_back(i);
  return order;
}

class Mma final : public Family {
 public:
  std::string_view name() const override { return "mma"; }
  bool is_last_resort(const plan::Device& device) const override { return device.major == 9; }
  Capability capability() const override { return {.major = 8, .minor = 0, .and_later = true}; }
  bool multiplies_two(const plan::Device& device) const override { return !refuse_device(device); }
  std::span<const plan::PlanField> fields() const override { return plan_fields(); }

  std::optional<Refusal> can_implement(const Workload& w) const override {
    if (auto refusal = refuse_rare(w.task)) return refusal;
    if (auto refusal = refuse_device(w.device)) return refusal;
    std::vector<std::string> reasons = refuse_contraction(w.task);
    const bool served =
        std::ranges::any_of(w.forms, [&](const plan::Epilogue& e) { return refuse_epilogue(e, w.task).empty(); });
    if (!served) std::ranges::move(refuse_epilogue(w.epilogue, w.task), std::back_inserter(reasons));
    if (reasons.empty()) return std::nullopt;
    return Refusal{Refusal::Scope::problem, std::move(reasons)};
  }
  std::vector<Candidate> candidates(const Workload& w, const PlanOverride& fixed) const override {
    std::vector<Candidate> all;
    for (const std::vector<std::size_t>& forms : order_of(w)) {
      for (const std::size_t i : forms)
        if (refuse_epilogue(w.forms[i], w.task).empty())
          std::ranges::move(plans(*this, {w.task, w.forms[i], w.device}, i, fixed), std::back_inserter(all));
      if (std::ranges::any_of(all, &Candidate::is_legal)) break;
    }
    // Passes over memory are not measured: they serve what no tile in registers does
    const auto spills = [](const Candidate& c) { return own(*c.plan).config.spills; };
    if (std::ranges::any_of(all, [&](const Candidate& c) { return c.is_legal() && !spills(c); }))
      std::erase_if(all, spills);
    const auto by_time = [](const Candidate& c) { return c.plan->predicted_us; };
    const auto refused = std::stable_partition(all.begin(), all.end(), [](const Candidate& c) { return c.is_legal(); });
    std::ranges::stable_sort(all.begin(), refused, {}, by_time);
    return all;
  }
  double cost(const Plan& plan, const Workload& w) const override { return predict_us(own(plan), w); }
  codegen::Kernel generate(const Plan& plan, const plan::Epilogue& epilogue,
                           const codegen::Options& options) const override {
    return mma::generate(epilogue, own(plan).config, options);
  }

  plan::Expected<std::size_t> parameter_bytes(const Plan&, const codegen::Kernel& kernel) const override {
    return mma::parameter_bytes(kernel.fields.size());
  }
  ParameterBytes constants(const Plan& plan, const Launched& what) const override {
    ParameterBytes bytes;
    bytes.at<Sm80ConvParams>() = mma::constants(own(plan), what);
    return bytes;
  }
  void fill(Parameter& to, const Plan& plan, const Launched& what, const Tensors& tensors) const override {
    mma::fill(to, own(plan), what, tensors);
  }
  void place_workspace(ParameterBytes& to, const Plan& plan, const plan::Epilogue& epilogue,
                       std::uint64_t base) const override {
    mma::place_workspace(to.at<Sm80ConvParams>(), own(plan), epilogue, base);
  }

  std::string title(const Plan& plan) const override {
    const Config& c = own(plan).config;
    const Tiling& t = c.tiling;
    return fmt::format("mma.sync {}x{}x{}/{}{}{}{}{}{}{}{}", t.m, t.n, t.k, t.stages,
                       t.warpgroups > 1 ? " 8 warps" : "", c.element == DType::tf32 ? " tf32" : "",
                       c.volumes  ? " volumes"
                       : c.phases ? " by phases"
                                  : "",
                       c.products > 1 ? " dual" : "",
                       c.mode == Mode::none ? "" : fmt::format(" {}{}", to_string(c.mode), c.spills ? " spilled" : ""),
                       c.resampling.any() ? " " + plan::to_string(c.resampling) : "",
                       c.parts > 1 ? fmt::format(" {} parts", c.parts) : "");
  }
  std::string describe(const Plan& plan) const override {
    return fmt::format("{}, {} CTAs of {} threads, {} KB", title(plan), plan.ctas, plan.threads,
                       (plan.shared_bytes + 512) / 1024);
  }
  std::string reasons(const Plan& plan, const Workload& w) const override;
  PlanOverride override_of(const Plan& plan) const override { return fields_of(own(plan)); }
  std::string kind(const Plan& plan) const override {
    const Tiling& t = own(plan).config.tiling;
    return fmt::format("{}x{} {}", t.m, t.n, t.warpgroups);
  }
};

std::string_view layout_of(const Config& c) {
  if (c.phases) return "pixels by the taps of their phase, k in the order of taps and channels";
  if (c.volumes) return "voxels by the filter's taps, k in the order of taps and channels";
  if (c.pixels) return "pixels by the filter's taps, k in the order of taps and channels";
  return c.image.columns ? "A (k, m)" : "rows of k";
}

/// What else than a normalisation's moments is reduced where tiles wait.
std::string reductions_of(const plan::Epilogue& e) {
  std::size_t stored = 0;
  for (const plan::Statistics& d : e.folds()) stored += d.reductions().size();
  return (e.exchanging() ? fmt::format("; the statistics are {} reductions, which tiles exchange together",
                                       e.exchanging()->reductions().size())
                         : "") +
         (stored > 0 ? fmt::format("; {} reductions over rows, joined by the last tile of a column, in order", stored)
                     : "");
}

std::string Mma::reasons(const Plan& plan, const Workload& w) const {
  const Config& c = own(plan).config;
  std::string text = fmt::format(
      "family: mma, tensor cores by mma.sync; up to {} CTAs on an SM\n"
      "loads: cp.async into {} stages, {} bytes of the image and {} of the filter at a time; {}{}\n",
      c.ctas_of_sm, c.tiling.stages, c.image.copy, c.filter.copy, layout_of(c), c.filter.columns ? "; B (k, n)" : "");
  if (c.mode == Mode::resident)
    text += fmt::format("mode: resident: {} tiles of an image wait in registers for its statistics{}\n",
                        own(plan).at_once, reductions_of(w.form_of(plan)));
  if (c.mode == Mode::streamed)
    text += fmt::format("mode: streamed: tiles wait in memory, in f32, until their image is complete{}\n",
                        reductions_of(w.form_of(plan)));
  if (c.parts > 1)
    text += fmt::format("split-K: {} CTAs share a tile, each with a part of its k; the first adds the others' sums\n",
                        c.parts);
  if (c.spills)
    text += fmt::format("mode: general: tiles wait in memory, in f32, and are read again in {} passes{}\n",
                        passes_over_memory(c, w.form_of(plan)), reductions_of(w.form_of(plan)));
  else if (c.meets && c.mode != Mode::resident)
    text += fmt::format("mode: {}: {} tiles wait for one another\n", to_string(c.mode), own(plan).at_once);
  return text + plan::describe_calls(w.form_of(plan), 2, "a thread has two neighbouring channels of a row");
}

}  // namespace

const Family& family() {
  static const Mma instance;
  return instance;
}

}  // namespace unisono::families::mma
