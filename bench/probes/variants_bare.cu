#include "launcher.cuh"
using namespace probe;
static Register<Shape<Bf16, 128, 128, 6, true>, Bare> a;
static Register<Shape<Bf16, 128, 160, 5, true>, Bare> b;
static Register<Shape<Bf16, 256, 128, 4, false>, Bare> d;
static Register<Shape<Bf16, 128, 128, 7, true, Norm::kNone, 2, 3>, Bare> e;
static Register<Shape<Bf16, 128, 160, 6, true, Norm::kNone, 2, 3>, Bare> f;
static Register<Shape<Bf16, 256, 64, 10, true, Norm::kNone, 2, 3>, Bare> g;
static Register<Shape<Bf16, 256, 128, 5, false, Norm::kNone, 2, 3>, Bare> h;
