#include "ir/suggest.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace unisono::ir {
namespace {

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(edit_distance("mish", "mish", 3), 0);
  EXPECT_EQ(edit_distance("mish", "mihs", 3), 1);  // a swap
  EXPECT_EQ(edit_distance("silu", "sigmoid", 5), 5);
  EXPECT_EQ(edit_distance("group_norm", "gruop_norm", 3), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting", 3), 3);
  EXPECT_EQ(edit_distance("", "abc", 3), 3);
  EXPECT_EQ(edit_distance("Bias", "bias", 3), 0);  // case aside
}

TEST(EditDistance, StopsAtTheLimit) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 2), 3);
  EXPECT_EQ(edit_distance("abc", "xyz", 1), 2);
  EXPECT_EQ(edit_distance("a", "abcdef", 2), 3);
  EXPECT_EQ(edit_distance("abc", "abd", 0), 1);
}

// The band must not cut off a path that is within the limit
TEST(EditDistance, AgreesWithTheFullTable) {
  const std::array<std::string_view, 9> words{"", "a", "ab", "ba", "abab", "baba", "aabb", "bbaab", "abbaa"};
  for (const auto x : words)
    for (const auto y : words)
      for (int limit = 0; limit < 6; ++limit)
        EXPECT_EQ(edit_distance(x, y, limit), std::min(edit_distance(x, y, 10), limit + 1))
            << x << " " << y << " " << limit;
}

TEST(Nearest, TakesTheNearestThatIsNear) {
  const std::array<std::string_view, 4> words{"scale", "shift", "groups", "eps"};
  EXPECT_EQ(nearest("scael", words), "scale");
  EXPECT_EQ(nearest("group", words), "groups");
  EXPECT_EQ(nearest("ep", words), "eps");
  EXPECT_EQ(nearest("axis", words), "");
  EXPECT_EQ(nearest("SCALE", words), "scale");
}

TEST(Nearest, AShortWordIsNotNearEverything) {
  const std::array<std::string_view, 3> words{"h", "y", "xy"};
  EXPECT_EQ(nearest("z", words), "");
  EXPECT_EQ(nearest("H", words), "h");
  EXPECT_EQ(nearest("yx", words), "xy");
}

TEST(KnownAs, NamesOfOtherSystems) {
  EXPECT_EQ(known_as("swish"), "silu");
  EXPECT_EQ(known_as("bfloat16"), "bf16");
  EXPECT_EQ(known_as("silu"), "");
}

}  // namespace
}  // namespace unisono::ir
