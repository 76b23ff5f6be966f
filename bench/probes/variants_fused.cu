#include "launcher.cuh"
using namespace probe;
static Register<Shape<Bf16, 128, 128, 64, 6, true>, BiasSilu> a;
static Register<Shape<Bf16, 128, 160, 64, 5, true>, BiasSilu> b;
