// Runs of pixels with a normalisation: images that patches of 8 x 16 do not cover well, and 1x1 filters.
#include "launcher.cuh"
using namespace probe;
constexpr Order kPp = Order::kPingPong;
static Register<Shape<Bf16, 128, 128, 5, kPp, Norm::kResident, 2, 0, 4>, Block> a;
static Register<Shape<Bf16, 128, 128, 4, kPp, Norm::kStreamed, 4, 0, 4>, Block> b;
static Register<Shape<Bf16, 128, 128, 5, kPp, Norm::kResident, 2, 0, 4, false, 1, 2>, Block> c;
static Register<Shape<Bf16, 128, 160, 4, kPp, Norm::kResident, 2, 0, 10>, Block> d;
static Register<Shape<Bf16, 128, 160, 4, Order::kCooperative, Norm::kResident, 1, 0, 10>, Block> e;
