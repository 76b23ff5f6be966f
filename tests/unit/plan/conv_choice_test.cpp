// Which plan is chosen for the eleven shapes of docs/notes/hopper-conv.md, bare and with bias, GroupNorm(32) and SiLU,
// and that the predicted time is near the measured one.

#include <gtest/gtest.h>

#include "problems.hpp"

namespace coda::plan {
namespace {

struct Shape {
  int n, h, w, c, k, r;
  const char* bare_plan;
  double bare_us;
  const char* block_plan;
  double block_us;
};

// Plans that differ from the note's table, and why they are as good:
//  * one tile a block (the first and third, bare): cooperative instead of ping-pong, whose second team has no tile. The
//    note's own step "cooperative where a block has one tile" gains 8 % with statistics; bare it halves a store of 1
//    us.
//  * 16,128,128,128,128 bare: no cluster; the note's 2x1 is within the 2 to 8 % between its runs.
//  * 8,64,64,320,320 block: patches instead of runs; the note times this shape between 85 and 94 us, and the same tile
//  with
//    patches at 85.4 us on 8,32,32,640,640, which is the same work.
//  * 1,512,512,128,128 bare: patches instead of runs, 112.1 and 111.2 us on the same work.
const Shape shapes[] = {
    {2, 64, 64, 320, 320, 3, "128x160 cooperative patch", 22.0, "128x160 cooperative patch resident", 28.0},
    {2, 32, 32, 640, 640, 3, "128x160 cooperative patch split", 25.8, "128x160 cooperative patch split resident", 30.8},
    {2, 16, 16, 1280, 1280, 3, "128x128 cooperative patch split", 26.8, "128x128 cooperative patch split resident",
     31.3},
    {8, 64, 64, 320, 320, 3, "128x160 pingpong patch", 83.7, "128x160 pingpong patch resident", 91.7},
    {8, 32, 32, 640, 640, 3, "128x160 pingpong patch", 80.3, "128x160 pingpong patch resident", 85.4},
    {16, 128, 128, 128, 128, 3, "128x128 pingpong patch", 106.8, "128x128 pingpong patch resident", 146.1},
    {4, 256, 256, 128, 128, 3, "128x128 pingpong patch", 112.1, "128x128 pingpong patch swap streamed", 156.8},
    {32, 56, 56, 256, 256, 3, "128x128 pingpong runs", 175.6, "128x128 pingpong runs resident", 186.3},
    {8, 64, 64, 320, 320, 1, "128x160 pingpong runs", 16.3, "128x160 pingpong runs resident", 27.3},
    {1, 512, 512, 128, 128, 3, "128x128 pingpong patch", 111.2, "128x128 pingpong patch streamed", 183.7},
    {8, 256, 256, 64, 64, 3, "256x64 pairs patch", 61.2, "256x64 pingpong patch swap streamed", 104.9},
};

class Choice : public testing::TestWithParam<Shape> {};

void expect_plan(const Shape& s, const char* epilogue, const char* plan, double us) {
  const Conv2d conv = test::conv_of(s.n, s.h, s.w, s.c, s.k, s.r);
  const ConvPlan chosen = choose(conv, test::epilogue_of(epilogue, conv), Device{});
  EXPECT_EQ(test::sketch(chosen.config), plan);
  EXPECT_GT(chosen.predicted_us, us / 1.2);
  EXPECT_LT(chosen.predicted_us, us * 1.2);
}

TEST_P(Choice, Bare) { expect_plan(GetParam(), test::bare, GetParam().bare_plan, GetParam().bare_us); }
TEST_P(Choice, Block) { expect_plan(GetParam(), test::block, GetParam().block_plan, GetParam().block_us); }

INSTANTIATE_TEST_SUITE_P(Notes, Choice, testing::ValuesIn(shapes), [](const auto& parameter) {
  const Shape& s = parameter.param;
  return std::to_string(s.n) + "x" + std::to_string(s.h) + "x" + std::to_string(s.w) + "x" + std::to_string(s.c) + "_" +
         std::to_string(s.k) + "_" + std::to_string(s.r);
});

TEST(Choosing, IsTheFirstCandidateAndTheFastest) {
  const Conv2d conv = test::conv_of(2, 56, 56, 96, 192, 3);
  const Epilogue epilogue = test::epilogue_of(test::block, conv);
  const auto all = candidates(conv, epilogue, Device{});
  EXPECT_EQ(all.front().plan.config, choose(conv, epilogue, Device{}).config);
  bool refused = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    refused |= !all[i].refusal.empty();
    EXPECT_EQ(refused, !all[i].refusal.empty()) << "a legal candidate behind a refused one, " << i;
    if (i > 0 && !refused) {
      EXPECT_GE(all[i].plan.predicted_us, all[i - 1].plan.predicted_us);
    }
  }
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace coda::plan
