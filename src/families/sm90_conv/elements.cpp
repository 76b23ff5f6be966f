#include "families/sm90_conv/elements.hpp"

#include <fmt/format.h>

#include "plan/function_calls.hpp"

namespace unisono::families::sm90_conv {
namespace {

/// What keeps elements in registers; nothing: shared memory serves, too.
std::optional<plan::Refusal> beyond_shared(const ConvConfig& c, const sm90::ConvProblem& p) {
  if (c.mode() != sm90::NormMode::general)
    return plan::because(
        fmt::format("mode {}; only a general epilogue's elements have both ways", to_string(c.mode())));
  if (p.row_levels > 0) return plan::because("values of rows that follow from reductions are in registers");
  if (p.visitor.folds())
    return plan::because("reductions over rows are stored, of what a thread has of a channel in registers");
  if (c.operands.products > 1) return plan::because("the second product's sums are in registers");
  if (c.schedule.swap) return plan::because("swap: neighbours in registers are pixels");
  if (c.features.stores == sm90::Stores::planes || c.features.stores == sm90::Stores::planes_tma)
    return plan::because("results are channels first, neighbours in memory are pixels");
  return {};
}

}  // namespace

bool chooses_shared(const ConvConfig& c, const sm90::ConvProblem& p, const sm90::FixedFields& fixed) {
  if (fixed.elements) return *fixed.elements == sm90::Elements::shared;
  return p.widest_call > 2 && !beyond_shared(c, p);
}

std::optional<plan::Refusal> refuse_in_shared(const ConvConfig& c, const sm90::ConvProblem& p) {
  if (!c.features.in_shared) return {};
  if (const auto beyond = beyond_shared(c, p)) return sm90::unfit("epilogue: shared; {}", beyond->first());
  return {};
}

std::string describe_functions(const ConvConfig& c, const plan::Epilogue& e) {
  return plan::describe_calls(e, c.features.in_shared ? 8 : 2,
                              c.features.in_shared ? "in shared memory a lane has eight (epilogue=registers: two)"
                                                   : "in registers a lane has two");
}

}  // namespace unisono::families::sm90_conv
