#pragma once
/// The parameters of the kernels of tensor/, as kernels/unisono/params/tensor_params.cuh lays them out.

#include "unisono/dtype.hpp"  // first: its enumerators have the names of the types below
#include "unisono/params/tensor_params.cuh"
