// Compiles the device headers: one bare convolution and one with GroupNorm in the same launch.
#include "../../bench/probes/launcher.cuh"
#include "params_layout.hpp"

using namespace probe;
static Register<Shape<Bf16, 128, 128, 6, Order::kPingPong>, Bare> bare;
static Register<Shape<Bf16, 128, 128, 6, Order::kPingPong, Norm::kResident, 2, 3, 4>, Block> fused;
