#include "launcher.cuh"
using namespace probe;
constexpr Order kPp = Order::kPingPong;
static Register<Shape<Bf16, 128, 128, 5, kPp, Norm::kDeferred, 4, 3>, Block> b;
static Register<Shape<Bf16, 256, 64, 6, kPp, Norm::kDeferred, 4, 3>, Block> a;
static Register<Shape<Bf16, 128, 160, 5, kPp, Norm::kResident, 2, 3>, Block> c;
static Register<Shape<Bf16, 256, 64, 8, kPp, Norm::kResident, 1, 3>, Block> d;
static Register<Shape<Bf16, 256, 64, 7, kPp, Norm::kStreamed, 1, 3>, Block> e;
static Register<Shape<Bf16, 128, 128, 6, kPp, Norm::kResident, 2, 3>, Block> f;
static Register<Shape<Bf16, 128, 128, 5, kPp, Norm::kStreamed, 2, 3>, Block> g;
static Register<Shape<Bf16, 128, 160, 5, kPp, Norm::kResident, 2, 3, true>, Block> h;
static Register<Shape<Bf16, 128, 128, 6, kPp, Norm::kResident, 2, 3, true>, Block> i;
