// Compiles the device headers: one bare convolution and one with GroupNorm in the same launch.
#include "../../bench/probes/launcher.cuh"
#include "params_layout.hpp"
#include "unisono/tensor/grid_sample.cuh"
#include "unisono/tensor/indexed.cuh"
#include "unisono/tensor/lines.cuh"
#include "unisono/tensor/map.cuh"
#include "unisono/tensor/moves.cuh"
#include "unisono/tensor/pools.cuh"
#include "unisono/tensor/products.cuh"
#include "unisono/tensor/reduce.cuh"
#include "unisono/tensor/resample.cuh"
#include "unisono/tensor/scatter_lines.cuh"
#include "unisono/tensor/volumes.cuh"

using namespace probe;
static Register<Shape<Bf16, 128, 128, 6, Order::kPingPong>, Bare> bare;
static Register<Shape<Bf16, 128, 128, 6, Order::kPingPong, Norm::kResident, 2, 3, 4>, Block> fused;
