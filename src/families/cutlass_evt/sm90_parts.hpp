#pragma once
/// What kernels of CUTLASS 3.x have in common.

#include <string>

#include "families/cutlass_evt/config.hpp"
#include "families/cutlass_evt/topology.hpp"
#include "families/cutlass_evt/visitors.hpp"

namespace unisono::families::cutlass_evt {

bool is_sm100(const Config& config);
const char* tag_of(const Config& config);         ///< "Sm90"
const char* schedule_name(const Config& config);  ///< "Cooperative", "Pingpong"

/// From TileShape to Epilogue.
std::string epilogue_types(const Config& config, const Visitors& visitors, const Tree& tree);
std::string visitors_arguments(const Config& config, const Visitors& visitors, const Tree& tree);
/// C's address, or nullptr.
std::string source_of(const Visitors& visitors);

/// What run() of grouped products calls, and its text up to the kernel's `params`.
std::string grouped_host(const Config& config, const Visitors& visitors, const Tree& tree);

}  // namespace unisono::families::cutlass_evt
