#include "launcher.cuh"
using namespace probe;
constexpr Order kPp = Order::kPingPong;
static Register<Shape<Bf16, 128, 128, 7, kPp, Norm::kNone, 2, 3, 1, true>, Bare> a;
static Register<Shape<Bf16, 128, 160, 6, kPp, Norm::kNone, 2, 3, 1, true>, Bare> b;
static Register<Shape<Bf16, 128, 160, 5, kPp, Norm::kResident, 2, 3, 10, true>, Block> c;
static Register<Shape<Bf16, 128, 128, 6, kPp, Norm::kResident, 2, 3, 4, true>, Block> d;
// One tile a CTA: two warpgroups share it, and halve its epilogue.
static Register<Shape<Bf16, 128, 160, 5, Order::kCooperative, Norm::kResident, 1, 3, 10>, Block> e;
static Register<Shape<Bf16, 128, 160, 5, Order::kCooperative, Norm::kResident, 1, 3, 10, true>, Block> f;
static Register<Shape<Bf16, 128, 128, 6, Order::kCooperative, Norm::kResident, 1, 3, 4, true>, Block> g;
static Register<Shape<Bf16, 128, 160, 6, Order::kCooperative, Norm::kNone, 1, 3, 1, true>, Bare> h;
static Register<Shape<Bf16, 128, 128, 7, Order::kCooperative, Norm::kNone, 1, 3, 1, true>, Bare> i;
static Register<Shape<Bf16, 128, 128, 5, kPp, Norm::kNone, 2, 0, 1, false, 1, 2>, Bare> j;
