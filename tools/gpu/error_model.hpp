#pragma once
/// How far the GPU's kernels may be from float64: that of the tuner, which checks plans before it keeps them.

#include "tuner/error_model.hpp"

namespace unisono::gpu {

using tuner::accumulator_error;
using tuner::error_model;

}  // namespace unisono::gpu
