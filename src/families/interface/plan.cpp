#include "families/interface/plan.hpp"

#include "families/interface/family.hpp"

namespace unisono::families {

std::vector<std::int64_t> moments_shape(const Plan& p, std::int64_t output_channels) {
  return {p.moments.images, p.moments.slots, output_channels / p.moments.unit, 4};
}

std::string title(const Plan& plan) { return plan.family->title(plan); }
std::string describe(const Plan& plan) { return plan.family->describe(plan); }

Override override_of(const Plan& plan) {
  Override all = plan.family->override_of(plan);
  all.fields.emplace("family", plan.family->name());
  return all;
}

}  // namespace unisono::families
