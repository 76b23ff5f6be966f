#pragma once
/// Convolutions, their transposes and products on any architecture, by ordinary multiply-adds:
/// kernels/unisono/plain/conv.cuh.

#include "families/interface/family.hpp"

namespace unisono::families::plain {

const Family& family();

}  // namespace unisono::families::plain
