#include "families/interface/plan.hpp"

namespace unisono::families {

const plan::Epilogue& form_of(const plan::Epilogue& e, const Plan& plan) {
  if (plan.rows_form && e.rows) return *e.rows;
  return plan.streamed_form && e.streamed ? *e.streamed : e;
}

std::vector<std::int64_t> moments_shape(const Plan& p, std::int64_t output_channels) {
  return {p.moments.images, p.moments.slots, output_channels / p.moments.unit, 4};
}

}  // namespace unisono::families
