#include "families/interface/family.hpp"

#include <fmt/format.h>

namespace unisono::families {

plan::Expected<Standalone> Family::standalone(const Plan&, const Launched&, std::string_view) const {
  return plan::because(fmt::format("emit: family {} has no library for the host, which would be its own file", name()));
}

std::string title(const Plan& plan) { return plan.family->title(plan); }
std::string describe(const Plan& plan) { return plan.family->describe(plan); }

PlanOverride override_of(const Plan& plan) {
  PlanOverride all = plan.family->override_of(plan);
  all.fields.emplace("family", plan.family->name());
  return all;
}

}  // namespace unisono::families
