#include "launcher.cuh"
using namespace probe;
constexpr Order kCo = Order::kCooperative, kPp = Order::kPingPong, kP2 = Order::kPingPongPairs;
static Register<Shape<Bf16, 128, 128, 6, kPp>, Bare> a;
static Register<Shape<Bf16, 128, 160, 5, kPp>, Bare> b;
static Register<Shape<Bf16, 256, 128, 4, kCo>, Bare> c;
static Register<Shape<Bf16, 128, 128, 7, kPp, Norm::kNone, 2, 3>, Bare> d;
static Register<Shape<Bf16, 128, 160, 6, kPp, Norm::kNone, 2, 3>, Bare> e;
static Register<Shape<Bf16, 256, 64, 10, kPp, Norm::kNone, 2, 3>, Bare> f;
static Register<Shape<Bf16, 256, 128, 5, kCo, Norm::kNone, 2, 3>, Bare> g;
static Register<Shape<Bf16, 128, 128, 7, kP2, Norm::kNone, 1, 3>, Bare> h;
static Register<Shape<Bf16, 256, 64, 10, kP2, Norm::kNone, 1, 3>, Bare> i;
