// Intervals that meet another, against a look at all of them.

#include "network/interval_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/random.hpp"

namespace unisono::network {
namespace {

TEST(IntervalIndex, FindsWhatMeets) {
  test::Random r(5);
  std::size_t sum = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<IndexRange> all;
    for (int i = r.between(0, 60); i > 0; --i) {
      const auto begin = static_cast<std::size_t>(r.below(100));
      all.push_back({begin, begin + static_cast<std::size_t>(r.between(1, 30))});
    }
    IntervalIndex index(all);
    std::vector<bool> present(all.size(), false);
    for (int step = 0; step < 100 && !all.empty(); ++step) {
      const auto i = static_cast<std::size_t>(r.below(static_cast<int>(all.size())));
      if (!present[i]) {
        index.insert(i), present[i] = true;
      } else if (r.chance(0.5)) {
        index.erase(i), present[i] = false;
      } else if (all[i].end - all[i].begin > 1) {
        r.chance(0.5) ? ++all[i].begin : --all[i].end;
        index.trim(i, all[i]);
      }
      const auto begin = static_cast<std::size_t>(r.below(120));
      const IndexRange x{begin, begin + static_cast<std::size_t>(r.between(1, 40))};
      std::vector<std::size_t> found, expected;
      index.find(x, found);
      for (std::size_t k = 0; k < all.size(); ++k)
        if (present[k] && all[k].begin < x.end && x.begin < all[k].end) expected.push_back(k);
      sum += expected.size();
      std::vector<std::size_t> some;
      index.find(x, some, 2);
      EXPECT_EQ(some.size(), std::min<std::size_t>(expected.size(), 2));
      std::sort(found.begin(), found.end());
      ASSERT_EQ(found, expected) << round;
    }
  }
  EXPECT_GT(sum, 10000u);
}

}  // namespace
}  // namespace unisono::network
