#include "launcher.cuh"
using namespace probe;
constexpr Order kPp = Order::kPingPong;
static Register<Shape<Bf16, 128, 128, 7, kPp, Norm::kNone, 2, 3, 1, true>, Bare> a;
static Register<Shape<Bf16, 128, 160, 6, kPp, Norm::kNone, 2, 3, 1, true>, Bare> b;
static Register<Shape<Bf16, 128, 160, 5, kPp, Norm::kResident, 2, 3, 10, true>, Block> c;
static Register<Shape<Bf16, 128, 128, 6, kPp, Norm::kResident, 2, 3, 4, true>, Block> d;
