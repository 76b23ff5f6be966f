#include "launcher.cuh"
using namespace probe;
static Register<Shape<Bf16, 128, 128, 64, 6, true>, Bare> a;
static Register<Shape<Bf16, 128, 128, 64, 5, true, Norm::kNone, 1, 1, 2>, Bare> a2;
static Register<Shape<Bf16, 128, 160, 64, 5, true>, Bare> b;
static Register<Shape<Bf16, 256, 64, 64, 4, true>, Bare> c;
static Register<Shape<Bf16, 256, 128, 64, 4, false>, Bare> d;
