// What the timed shapes do not need: runs with a normalisation, units of one channel, f16, clusters, narrow tiles, tensors.
#include "launcher.cuh"
using namespace probe;
constexpr Order kCo = Order::kCooperative, kPp = Order::kPingPong, kP2 = Order::kPingPongPairs;
static Register<Shape<Bf16, 128, 128, 4, kPp, Norm::kStreamed, 4>, BlockResidual> a;
static Register<Shape<Bf16, 128, 96, 4, kPp, Norm::kStreamed, 6>, Block> b;
static Register<Shape<F16, 128, 128, 4, kCo, Norm::kResident>, InHalf<BlockResidual>> c;
static Register<Shape<F16, 128, 72, 5, kP2, Norm::kStreamed, 2>, InHalf<Block>> d;
static Register<Shape<Bf16, 128, 128, 5, kPp, Norm::kNone, 1, 0, 1, false, 1, 2>, BiasSilu> e;
static Register<Shape<Bf16, 128, 128, 5, kPp, Norm::kNone, 1, 0, 1, false, 2, 1>, Bare> f;
static Register<Shape<Bf16, 128, 128, 6, kPp, Norm::kNone, 2, 3, 1, false, 2, 1>, Bare> i;
static Register<Shape<Bf16, 256, 128, 4, kCo, Norm::kNone, 1, 0, 1, false, 2, 1>, Bare> j;
static Register<Shape<Bf16, 256, 128, 4, kCo, Norm::kNone, 1, 0, 1, false, 1, 2>, Bare> k;
static Register<Shape<F16, 256, 64, 8, kPp, Norm::kNone, 1, 0, 1, false, 1, 5, 32>, InHalf<Bare>> g;
static Register<Shape<F16, 128, 64, 6, kPp, Norm::kResident, 1, 3, 1, false, 2, 1>, InHalf<Block>> h;
