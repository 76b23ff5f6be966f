#pragma once
/// What of an epilogue these kernels do not compute, how tiles wait for one another, and what that takes.

#include <cstdint>
#include <string>
#include <vector>

#include "families/interface/family.hpp"
#include "families/mma/plan.hpp"
#include "plan/visitor_shape.hpp"

namespace unisono::families::mma {

/// Every reason why no plan has such an epilogue; none: some may.
std::vector<std::string> refuse_epilogue(const plan::Epilogue& epilogue, const plan::ConvTask& task);

/// The modes that an epilogue has plans of.
std::vector<Mode> modes_of(const plan::Epilogue& epilogue);

/// What follows from the plan's mode; its tiles are set.
void choose_waits(MmaPlan& plan, const plan::Epilogue& epilogue, const plan::VisitorShape& visitor);

/// A general epilogue's tiles that wait for one another do so in memory if they are more than the CTAs in flight.
void choose_memory(MmaPlan& plan, const plan::Epilogue& epilogue, const plan::VisitorShape& visitor, int in_flight);

/// How often tiles that wait in memory are read again.
int passes_over_memory(const Config& config, const plan::Epilogue& epilogue);

/// As epilogue/folds.cuh and exchange/ find them.
void lay_out_workspace(MmaPlan& plan, const plan::VisitorShape& visitor, std::int64_t channels);

/// FragmentEpilogue::kBytes.
std::size_t epilogue_bytes(const Config& config, const plan::VisitorShape& visitor);

}  // namespace unisono::families::mma
