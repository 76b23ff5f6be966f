// Stores that are pooled or upsampled are split from whole ones.

#include "passes/split_stores.hpp"

#include <gtest/gtest.h>

#include "unisono/text.hpp"

namespace unisono::passes {
namespace {

TEST(SplitStores, AreSplitFromWholeOnes) {
  const SplitStores split =
      split_stores(parse("y = relu(acc + bias[n])\n"
                         "store y : bf16\n"
                         "store max_pool_2x2(y) as p : bf16\n"
                         "store upsample_2x2(y) as e : bf16\n"));
  EXPECT_TRUE(structurally_equal(split.graph, parse("y = relu(acc + bias[n])\nstore y : bf16")));
  EXPECT_EQ(split.source, "y");
  EXPECT_EQ(split.pooled, "p");
  EXPECT_EQ(split.upsampled, "e");
  EXPECT_FALSE(split.only_upsampled);
  EXPECT_FALSE(split_stores(parse("store acc as y")).any());
}

TEST(SplitStores, AnUpsampledOneAloneGetsASourceThatStandsLast) {
  const SplitStores split = split_stores(parse("store upsample_2x2(relu(acc)) as e : f16\nstore acc as small : f16"));
  EXPECT_TRUE(structurally_equal(split.graph, parse("store acc as small : f16\nstore relu(acc) as small2 : f16")));
  EXPECT_EQ(split.source, "small2");
  EXPECT_EQ(split.upsampled, "e");
  EXPECT_TRUE(split.only_upsampled);
}

}  // namespace
}  // namespace unisono::passes
