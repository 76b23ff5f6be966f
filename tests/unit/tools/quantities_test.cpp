#include "command/quantities.hpp"

#include <gtest/gtest.h>

namespace unisono::command {
namespace {

TEST(Quantities, Durations) {
  EXPECT_EQ(parse_duration("45s"), 45);
  EXPECT_EQ(parse_duration("90m"), 5400);
  EXPECT_EQ(parse_duration("12h"), 43200);
  EXPECT_EQ(parse_duration("30d"), 2592000);
  EXPECT_EQ(parse_duration("8w"), 4838400);
  EXPECT_EQ(parse_duration("0s"), 0);
  for (const char* wrong : {"", "d", "30", "30x", "-1d", "1.5d", " 1d", "1d ", "1dd", "99999999999999999999d"}) {
    EXPECT_FALSE(parse_duration(wrong)) << wrong;
  }
}

TEST(Quantities, Sizes) {
  EXPECT_EQ(parse_size("1000"), 1000u);
  EXPECT_EQ(parse_size("64K"), 65536u);
  EXPECT_EQ(parse_size("500MB"), 524288000u);
  EXPECT_EQ(parse_size("2GiB"), 2147483648u);
  EXPECT_EQ(parse_size("1T"), 1099511627776u);
  EXPECT_EQ(parse_size("7B"), 7u);
  for (const char* wrong : {"", "G", "-1G", "1.5G", "1iB", "1g", "1GG", "1G ", "99999999999T"}) {
    EXPECT_FALSE(parse_size(wrong)) << wrong;
  }
}

TEST(Quantities, Texts) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(std::uint64_t{3} << 50), "3072.0 TiB");
  EXPECT_EQ(age_text(-5), "0 s");
  EXPECT_EQ(age_text(59), "59 s");
  EXPECT_EQ(age_text(3599), "59 min");
  EXPECT_EQ(age_text(3 * 3600), "3 h");
  EXPECT_EQ(age_text(12.5 * 24 * 3600), "12 d");
}

}  // namespace
}  // namespace unisono::command
