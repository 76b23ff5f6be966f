#pragma once
/// Depthwise convolutions on sm_90a by ordinary multiplications.

#include "families/interface/family.hpp"

namespace unisono::families {

const Family& sm90_depthwise();

}  // namespace unisono::families
