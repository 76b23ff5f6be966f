// Lists and functions that take no memory.

#include "support/small_vector.hpp"

#include <gmock/gmock.h>

#include <cstdint>

#include "support/function_ref.hpp"

namespace unisono::support {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Small = SmallVector<std::int64_t, 6>;

TEST(SmallVector, IsAListOfAFewElements) {
  Small x{1, 2, 3};
  x.insert(x.begin() + 1, 7);
  EXPECT_THAT(x, ElementsAre(1, 7, 2, 3));
  x.insert(x.begin(), 2, 5);
  EXPECT_THAT(x, ElementsAre(5, 5, 1, 7, 2, 3));
  EXPECT_THAT(x.erase(x.begin() + 1, x.begin() + 4), x.begin() + 1);
  EXPECT_THAT(x, ElementsAre(5, 2, 3));
  x.erase(x.begin());
  x.push_back(4);
  EXPECT_THAT(x, ElementsAre(2, 3, 4));
  EXPECT_EQ(x.back(), 4);
  x.pop_back();
  EXPECT_EQ(x, (Small{2, 3}));
  EXPECT_FALSE(x == (Small{2, 3, 4}));
  x.assign(3, 9);
  EXPECT_THAT(x, ElementsAre(9, 9, 9));
  x.clear();
  EXPECT_THAT(x, IsEmpty());
  EXPECT_THAT(Small(2), ElementsAre(0, 0));
}

TEST(SmallVector, OfAVectorAndBack) {
  const std::vector<std::int64_t> given{4, 5};
  const Small x = given;
  EXPECT_THAT(x, ElementsAre(4, 5));
  EXPECT_EQ(std::vector<std::int64_t>(x), given);
}

TEST(SmallVector, MoreThanItHolds) {
  Small x(6);
  EXPECT_THROW(x.push_back(1), InternalError);
  EXPECT_THROW(Small(7), InternalError);
  EXPECT_EQ(x.size(), 6u);
}

TEST(FunctionRef, CallsWhatIsThere) {
  int calls = 0;
  const auto count = [&](int by) { return calls += by; };
  const FunctionRef<int(int)> counted = count;
  EXPECT_EQ(counted(2), 2);
  EXPECT_EQ(FunctionRef<int(int)>(counted)(3), 5);
}

}  // namespace
}  // namespace unisono::support
