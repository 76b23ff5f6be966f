#pragma once
/// Depthwise convolutions on sm_90a by ordinary multiplications.

#include "families/interface/family.hpp"

namespace unisono::families::sm90_depthwise {

const Family& family();

}  // namespace unisono::families::sm90_depthwise
