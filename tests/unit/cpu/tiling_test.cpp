// Strips and segments: they cover every row once, and segments do not depend on the threads.

#include "runtime/cpu/tiling.hpp"

#include <gtest/gtest.h>

namespace unisono::cpu {
namespace {

const std::vector<Extents> spaces{{1, 1, 1, 1},     {1, 192, 192, 16}, {3, 12, 12, 128}, {1, 7, 5, 3},
                                  {5, 1, 1, 512},   {1, 4097, 1, 64},  {1, 1, 1, 50000}, {2, 100000, 1, 1},
                                  {1, 13, 1, 4096}, {64, 3, 3, 24},    {1, 2048, 2, 3}};

TEST(Tiling, StripsCoverEveryRowOnce) {
  for (const Extents& e : spaces) {
    for (const int threads : {1, 2, 3, 7, 64}) {
      const Tiling t(e, threads);
      std::vector<int> seen(static_cast<std::size_t>(e.images * e.height));
      for (std::int64_t i = 0; i < t.strips(); ++i) {
        const Strip s = t.strip(i);
        ASSERT_GE(s.height, 1);
        ASSERT_LE(s.height, t.strip_height());
        ASSERT_LE(s.first + s.height, e.height) << "a strip leaves its image";
        ASSERT_EQ(s.first % t.segment_height(), 0) << "a strip starts inside a segment";
        for (std::int64_t p = s.first; p < s.first + s.height; ++p)
          ++seen[static_cast<std::size_t>(s.image * e.height + p)];
      }
      for (const int count : seen) ASSERT_EQ(count, 1);
    }
  }
}

TEST(Tiling, SegmentsDependOnTheExtentsAlone) {
  for (const Extents& e : spaces) {
    const Tiling one(e, 1);
    for (const int threads : {2, 3, 7, 64}) EXPECT_EQ(Tiling(e, threads).segment_height(), one.segment_height());
    std::int64_t rows = 0;
    for (std::int64_t s = 0; s < one.segments_per_image(); ++s) rows += one.segment_rows(s);
    EXPECT_EQ(rows, e.rows_per_image());
  }
}

TEST(Tiling, SmallProblemsGiveEveryThreadWork) {
  EXPECT_GE(Tiling({1, 12, 12, 128}, 2).strips(), 2);
  EXPECT_GE(Tiling({1, 24, 24, 96}, 8).strips(), 8);
  EXPECT_GE(Tiling({8, 4, 4, 64}, 8).strips(), 8);
}

TEST(Tiling, TilesFitTheSecondLevelCache) {
  for (const Extents& e : {Extents{1, 192, 192, 16}, Extents{1, 128, 128, 64}, Extents{1, 512, 512, 8}})
    EXPECT_LE(Tiling(e, 2).strip_rows() * e.cols * 4, 300 << 10);
}

// A run can be cancelled between two strips, so none has more than a second's work if it could have less
TEST(Tiling, StripsAreNoLongerThanIsBearable) {
  EXPECT_EQ(Tiling({1, 1001, 1001, 1}, 2, false, 9e9).strip_height(), 1);
  EXPECT_EQ(Tiling({1, 1001, 1001, 1}, 2, true, 0x1p40).strip_height(), 1);
  EXPECT_EQ(Tiling({1, 1001, 1001, 1}, 2, false, 0x1p30).strip_height(), 16);
  EXPECT_EQ(Tiling({8, 56, 56, 256}, 2, false, 56.0 * 256 * 4608).strip_height(),
            Tiling({8, 56, 56, 256}, 2, false).strip_height());
}

}  // namespace
}  // namespace unisono::cpu
