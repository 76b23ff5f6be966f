// A plan's fields with types say what their text says.

#include "families/typed_override.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/override.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

using testing::HasSubstr;

TEST(TypedOverride, EveryFieldOfTheTextHasAType) {
  for (const char* text : {"family=sm90_conv",
                           "tile=128x160",
                           "depth=32",
                           "order=cooperative",
                           "order=pingpong",
                           "order=pingpong2",
                           "load=halo",
                           "load=im2col",
                           "load=gather",
                           "load=im2col_smem",
                           "load=depthwise",
                           "stages=6",
                           "buffers=2",
                           "cluster=1x2",
                           "split=on",
                           "split=off",
                           "swap=on",
                           "stationary=off",
                           "mode=none",
                           "mode=resident",
                           "mode=streamed",
                           "mode=rows",
                           "mode=general",
                           "unit=8",
                           "group=4",
                           "fetch=0",
                           "fetch=3",
                           "thread=8x4x2",
                           "load=halo stages=5+3"}) {
    const PlanOverride typed = parse_plan(text);
    EXPECT_TRUE(typed.any()) << text;
    EXPECT_TRUE(typed.others.empty()) << text;
    EXPECT_EQ(to_string(typed), text);
  }
  EXPECT_FALSE(parse_plan("").any());
  EXPECT_EQ(to_string(PlanOverride{}), "");
}

// The message that lists all keys is the one place that has them: a key without a type fails here
TEST(TypedOverride, NoKeyIsLeftOut) {
  std::string message;
  try {
    parse_plan("none=1");
  } catch (const UserError& e) {
    message = e.what();
  }
  const std::string all = to_string(PlanOverride{
      .family = "sm90_conv",
      .tile = {{128, 160}},
      .depth = 64,
      .schedule = PlanOverride::Schedule::pingpong2,
      .loads = PlanOverride::Loads::halo_tiles,
      .stages = {{5, 3}},
      .store_buffers = 2,
      .cluster = {{1, 2}},
      .split = false,
      .swap = false,
      .stationary = false,
      .mode = PlanOverride::Mode::rows,
      .unit = 4,
      .group = 2,
      .spill = PlanOverride::Spill::f16,
      .raster = PlanOverride::Raster::channels,
      .hints = true,
      .epilogue = PlanOverride::Elements::shared,
      .fetch = 1,
      .ahead = PlanOverride::Ahead::all,
      .strip = {{8, 4, 4}},
      .others = {{"arch", "sm90a"}, {"swizzle_size", "2"}, {"subtile", "64x32"}, {"reductions", "atomic"}}});
  const std::string known = "known are ";
  std::size_t at = message.find(known), keys = 0;
  ASSERT_NE(at, std::string::npos) << message;
  for (at += known.size(); at < message.size(); ++keys) {
    const std::size_t end = std::min(message.find_first_of(",;", at), message.size());
    EXPECT_THAT(" " + all, HasSubstr(" " + message.substr(at, end - at) + "="));
    if (end == message.size() || message[end] == ';') break;
    at = end + 2;
  }
  EXPECT_GE(keys, 18u);
  EXPECT_EQ(to_string(parse_plan(all)), all);
}

TEST(TypedOverride, FieldsByName) {
  const PlanOverride by_name{.others = {{"tile", "128x64"}}};
  EXPECT_TRUE(by_name.any());
  EXPECT_EQ(to_string(by_name), "tile=128x64");
  EXPECT_EQ(parse_plan(to_string(by_name)), (PlanOverride{.tile = {{128, 64}}})) << "what has a type is read with it";
  EXPECT_THROW(to_string(PlanOverride{.tile = {{128, 64}}, .others = {{"tile", "128x64"}}}), UserError);
  EXPECT_THROW(to_string(PlanOverride{.others = {{"threats", "64"}}}), UserError);
  EXPECT_THROW(to_string(PlanOverride{.others = {{"tile", "0x64"}}}), UserError);
}

TEST(TypedOverride, TextAndTypesTogether) {
  const Override both = fixed_by("tile=128x64", {.split = true});
  EXPECT_EQ(to_string(both), "tile=128x64 split=on");
  EXPECT_THROW(fixed_by("split=on", {.split = true}), UserError);
  EXPECT_THROW(fixed_by("stages=5+3", {.loads = PlanOverride::Loads::im2col_tiles}), UserError);
}

}  // namespace
}  // namespace unisono::plan
