#include "launcher.cuh"
using namespace probe;
constexpr Order kPp = Order::kPingPong;
// Units of 2, 4 and 10 channels: groups of 4, 8, 10, 20 and 40 are whole numbers of them.
static Register<Shape<Bf16, 128, 128, 5, kPp, Norm::kStreamed, 4, 3, 4>, Block> a;
static Register<Shape<Bf16, 256, 64, 6, kPp, Norm::kStreamed, 4, 3, 2>, Block> b;
static Register<Shape<Bf16, 128, 160, 5, kPp, Norm::kResident, 2, 3, 10>, Block> c;
static Register<Shape<Bf16, 256, 64, 8, kPp, Norm::kResident, 1, 3, 2>, Block> d;
static Register<Shape<Bf16, 128, 128, 6, kPp, Norm::kResident, 2, 3, 4>, Block> e;
static Register<Shape<Bf16, 256, 64, 8, kPp, Norm::kStreamed, 4, 2, 2, false, 1, 1, 64, true>, Block> f;
static Register<Shape<Bf16, 256, 64, 10, kPp, Norm::kResident, 2, 2, 2, false, 1, 1, 64, true>, Block> g;
