#include "launcher.cuh"
using namespace probe;
static Register<Shape<Bf16, 128, 128, 7, true, Norm::kNone, 2, 3>, BiasSilu> a;
static Register<Shape<Bf16, 128, 160, 6, true, Norm::kNone, 2, 3>, BiasSilu> b;
static Register<Shape<Bf16, 256, 64, 10, true, Norm::kNone, 2, 3>, BiasSilu> c;
