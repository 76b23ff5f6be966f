#include "launcher.cuh"
using namespace probe;
static Register<Shape<Bf16, 128, 128, 64, 5, true, Norm::kResident>, Block> a;
static Register<Shape<Bf16, 128, 128, 64, 5, true, Norm::kStreamed>, Block> b;
