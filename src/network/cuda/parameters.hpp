#pragma once
/// The parameters of plain kernels, as kernels/coda/plain_params.cuh lays them out.

#include "coda/dtype.hpp"  // first: its enumerators have the names of the types below
#include "coda/plain_params.cuh"
