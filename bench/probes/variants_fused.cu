#include "launcher.cuh"
using namespace probe;
constexpr Order kPp = Order::kPingPong, kP2 = Order::kPingPongPairs;
static Register<Shape<Bf16, 128, 128, 7, kPp, Norm::kNone, 2, 3>, BiasSilu> a;
static Register<Shape<Bf16, 128, 160, 6, kPp, Norm::kNone, 2, 3>, BiasSilu> b;
static Register<Shape<Bf16, 256, 64, 10, kPp, Norm::kNone, 2, 3>, BiasSilu> c;
static Register<Shape<Bf16, 256, 64, 10, kP2, Norm::kNone, 1, 3>, BiasSilu> d;
