#pragma once
/// Convolutions and products on sm_90a by TMA and wgmma.

#include "families/interface/family.hpp"

namespace unisono::families {

const Family& sm90_conv();

}  // namespace unisono::families
