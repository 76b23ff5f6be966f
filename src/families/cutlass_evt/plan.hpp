#pragma once
/// A plan of this family: what its kernel is compiled for.

#include <span>

#include "families/cutlass_evt/config.hpp"
#include "families/interface/plan.hpp"

namespace unisono::families::cutlass_evt {

struct EvtPlan final : Plan {
  Config config;
  int sms = 0;  ///< that its persistent CTAs may occupy
};

/// "CUTLASS sm90a 128x128x64 cooperative".
std::string title_of(const EvtPlan& plan);

/// What an override may fix of these plans.
std::span<const plan::PlanField> plan_fields();

/// What CUTLASS chooses by itself has no field.
PlanOverride override_of(const Config& config);

}  // namespace unisono::families::cutlass_evt
