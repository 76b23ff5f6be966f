#pragma once
/// A library's text as files that need CUTLASS's headers and nothing of ours.

#include <string_view>

#include "families/cutlass_evt/plan.hpp"
#include "families/interface/family.hpp"

namespace unisono::families::cutlass_evt {

Standalone standalone(const EvtPlan& plan, const Launched& what, std::string_view name);

}  // namespace unisono::families::cutlass_evt
