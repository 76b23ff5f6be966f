#include "launcher.cuh"
using namespace probe;
static Register<Shape<Bf16, 128, 128, 6, true, Norm::kResident, 2, 3>, Block> a;
static Register<Shape<Bf16, 128, 128, 5, true, Norm::kStreamed, 2, 3>, Block> b;
static Register<Shape<Bf16, 128, 160, 5, true, Norm::kResident, 2, 3>, Block> c;
static Register<Shape<Bf16, 256, 64, 8, true, Norm::kResident, 2, 3>, Block> e2;
static Register<Shape<Bf16, 256, 64, 7, true, Norm::kStreamed, 1, 3>, Block> e;
static Register<Shape<Bf16, 128, 128, 5, true, Norm::kResident>, BlockResidual> f;
static Register<Shape<Bf16, 128, 128, 4, true, Norm::kStreamed>, BlockResidual> g;
