#pragma once
/// The parameters of plain kernels, and the table of the caller's tensors, as kernels/unisono/params/plain_params.cuh
/// lays them out.

#include "unisono/dtype.hpp"  // first: its enumerators have the names of the types below
#include "unisono/params/plain_params.cuh"
