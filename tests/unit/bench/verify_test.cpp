// Which graphs may be judged image by image.

#include "bench/verify.hpp"

#include <gtest/gtest.h>

#include "unisono/text.hpp"

namespace unisono::bench {
namespace {

TEST(Verify, ImagesAreApart) {
  EXPECT_TRUE(images_are_apart(parse("store acc as y : bf16")));
  EXPECT_TRUE(
      images_are_apart(parse("store silu(group_norm(acc + bias[n], groups=4, scale=gamma[n])) + r[m,n] as y : bf16")));
  EXPECT_TRUE(
      images_are_apart(parse("store instance_norm(acc) as y\nstore mean(acc, over=(m,n), per=b, groups=4) as mu")));
  EXPECT_TRUE(images_are_apart(parse("store layer_norm(acc) as y")));
}

TEST(Verify, ImagesAreNotApart) {
  EXPECT_FALSE(images_are_apart(parse("store batch_norm(acc) as y")));
  EXPECT_FALSE(images_are_apart(parse("store acc - mean(acc, over=m) as y")));
  EXPECT_FALSE(images_are_apart(parse("store acc as y\nstore sum(acc, over=m) as s")));
  EXPECT_FALSE(images_are_apart(parse("store acc * cast(index(b), f32) as y")));
  EXPECT_FALSE(images_are_apart(parse("store acc / cast(extent(b), f32) as y")));
  EXPECT_FALSE(images_are_apart(parse("store acc as y\nstore bias[n] as b")));  // one output of all images
}

}  // namespace
}  // namespace unisono::bench
