#include "families/interface/plan.hpp"

namespace unisono::families {

std::vector<std::int64_t> moments_shape(const Plan& p, std::int64_t output_channels) {
  return {p.moments.images, p.moments.slots, output_channels / p.moments.unit, 4};
}

}  // namespace unisono::families
