#include "families/interface/family.hpp"

namespace unisono::families {

std::string title(const Plan& plan) { return plan.family->title(plan); }
std::string describe(const Plan& plan) { return plan.family->describe(plan); }

Override override_of(const Plan& plan) {
  Override all = plan.family->override_of(plan);
  all.fields.emplace("family", plan.family->name());
  return all;
}

}  // namespace unisono::families
