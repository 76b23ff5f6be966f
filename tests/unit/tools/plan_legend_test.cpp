#include "command/plan_legend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace unisono::command {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(PlanLegendTest, EachPartOfAPlanHasALine) {
  const std::string legend = legend_of(
      "128x160x128/5+3 pingpong cluster 2x1 split group 4 swap streamed tf32 batched plain stores fetch 1x4, 40 tiles, "
      "132 CTAs of 384 threads, 210 KB");
  for (const char* part : {"128x160x128", "/5+3", "pingpong", "cluster", "split", "group", "swap", "streamed", "tf32",
                           "batched", "plain", "fetch"})
    EXPECT_THAT(legend, HasSubstr(std::string("\n  ") + part + " ")) << part;
}

TEST(PlanLegendTest, FormsOfStoresAreExplained) {
  const std::string legend =
      legend_of("256x64/9+2 pingpong2 swap resident pooled upsampled only statistics/2, 4 tiles");
  for (const char* part : {"pooled", "upsampled", "statistics"})
    EXPECT_THAT(legend, HasSubstr(std::string("\n  ") + part + " ")) << part;
  EXPECT_THAT(legend_of("128x64/9 pingpong general in shared memory, 4 tiles"), HasSubstr("\n  memory "));
}

TEST(PlanLegendTest, OneLegendOfSeveralPlans) {
  const std::string legend = legend_of(std::vector<std::string>{"plain kernel", "128x64/12+3 cooperative swap, 8 tiles",
                                                                "256x64/9+2 pingpong swap resident, 8 tiles"});
  for (const char* part : {"128x64", "/12+3", "cooperative", "pingpong", "resident"})
    EXPECT_THAT(legend, HasSubstr(std::string("\n  ") + part + " ")) << part;
  EXPECT_EQ(legend.find("\n  swap "), legend.rfind("\n  swap "));
}

TEST(PlanLegendTest, WhatAPlanLacksIsNotExplained) {
  const std::string legend = legend_of("64x16/12 cooperative gather all, 1 tiles, 4 CTAs of 384 threads, 20 KB");
  EXPECT_THAT(legend, HasSubstr("ordinary loads"));
  EXPECT_THAT(legend, HasSubstr("for both operands"));
  for (const char* part : {"pingpong", "cluster", "  rows", "resident", "direct", "pingpong2"})
    EXPECT_THAT(legend, Not(HasSubstr(part))) << part;
}

}  // namespace
}  // namespace unisono::command
