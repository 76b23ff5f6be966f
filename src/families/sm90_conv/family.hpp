#pragma once
/// Convolutions and products on sm_90a by TMA and wgmma.

#include "families/interface/family.hpp"

namespace unisono::families::sm90_conv {

const Family& family();

}  // namespace unisono::families::sm90_conv
