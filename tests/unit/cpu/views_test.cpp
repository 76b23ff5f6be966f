// Views: checks of shape and strides, and which views may share memory.

#include "runtime/cpu/views.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

#include "unisono/error.hpp"

namespace unisono::cpu {
namespace {

using ::testing::HasSubstr;

float memory[4096];
const DType f32[] = {DType::f32};

ConstTensorView view(std::int64_t offset, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {}) {
  if (strides.empty()) strides = row_major_strides(shape);
  return {memory + offset, DType::f32, std::move(shape), std::move(strides)};
}

bool share(const ConstTensorView& x, const ConstTensorView& y) {
  const bool a = may_overlap(x, x.strides, y, y.strides);
  EXPECT_EQ(a, may_overlap(y, y.strides, x, x.strides)) << "not symmetric";
  return a;
}

void expect_error(const ConstTensorView& v, const std::vector<std::int64_t>& shape, const std::string& message) {
  try {
    checked_strides(v, shape, f32, "operand x");
    FAIL() << "accepted; expected " << message;
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), HasSubstr(message));
    EXPECT_THAT(e.what(), HasSubstr("operand x"));
  }
}

TEST(Views, Checks) {
  EXPECT_EQ(checked_strides({memory, DType::f32, {2, 3}, {}}, {2, 3}, f32, "x"), (std::vector<std::int64_t>{3, 1}));
  expect_error(view(0, {2, 3}), {3, 2}, "shape (2,3); expected (3,2)");
  expect_error({memory, DType::f64, {2, 3}, {}}, {2, 3}, "dtype f64; expected f32");
  expect_error({nullptr, DType::f32, {2, 3}, {}}, {2, 3}, "null pointer");
  expect_error({memory, DType::f32, {2, 3}, {1}}, {2, 3}, "1 strides");
  expect_error({memory, DType::f32, {2, 3}, {3, -1}}, {2, 3}, "none below 0");
}

TEST(Views, DistinctElements) {
  const auto distinct = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    try {
      check_distinct({memory, DType::f32, shape, strides}, strides, "output y");
      return true;
    } catch (const UserError&) {
      return false;
    }
  };
  EXPECT_TRUE(distinct({2, 3}, {3, 1}));
  EXPECT_TRUE(distinct({2, 3}, {1, 2}));
  EXPECT_TRUE(distinct({2, 3}, {100, 7}));
  EXPECT_TRUE(distinct({1, 3}, {0, 1}));
  EXPECT_FALSE(distinct({2, 3}, {2, 1}));
  EXPECT_FALSE(distinct({2, 3}, {0, 1}));
  EXPECT_FALSE(distinct({2, 3}, {1, 1}));
}

TEST(Views, SharedMemory) {
  const auto x = view(100, {2, 4, 4, 8});
  EXPECT_TRUE(share(x, x));
  EXPECT_TRUE(share(x, view(101, {2, 4, 4, 8})));
  EXPECT_FALSE(share(x, view(100 + 256, {8})));
  EXPECT_TRUE(share(x, view(100 + 255, {8})));
  EXPECT_FALSE(share(x, view(92, {8})));
  EXPECT_TRUE(share(x, view(93, {8})));
}

TEST(Views, ChannelSlicesOfOneTensor) {
  // (1, 4, 4, 24): channels 0 to 8, 8 to 24, 4 to 12
  const std::vector<std::int64_t> strides{384, 96, 24, 1};
  const auto low = view(0, {1, 4, 4, 8}, strides), high = view(8, {1, 4, 4, 16}, strides),
             middle = view(4, {1, 4, 4, 8}, strides);
  EXPECT_FALSE(share(low, high));
  EXPECT_TRUE(share(low, middle));
  EXPECT_TRUE(share(middle, high));
  // the slice runs over into the next pixel
  EXPECT_TRUE(share(low, view(20, {1, 4, 4, 8}, strides)));
  EXPECT_TRUE(share(low, view(8, {1, 4, 4, 16}, {200, 48, 12, 1})));
}

TEST(Views, ChannelSlicesBeyondThePixel) {
  const std::vector<std::int64_t> strides{384, 96, 24, 1};
  // the same channels of the rows below: other elements, but their pixels are the same pitch apart
  EXPECT_TRUE(share(view(0, {1, 2, 4, 8}, strides), view(24, {1, 2, 4, 8}, strides)));
  EXPECT_FALSE(share(view(0, {1, 2, 4, 8}, strides), view(24 + 8, {1, 2, 4, 8}, strides)));
}

// Slices of any axes of a dense tensor whose axes are in any order, and other views beside them: what sets of bytes say
TEST(Views, SharedMemoryIsThatOfTheBytes) {
  std::mt19937 random(1);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  const auto bytes = [](const ConstTensorView& v) {
    std::set<const std::byte*> all;
    for (std::int64_t i = 0; i < element_count(v.shape); ++i) {
      const auto* at = static_cast<const std::byte*>(v.data);
      std::int64_t rest = i;
      for (std::size_t d = v.shape.size(); d-- > 0; rest /= v.shape[d])
        at += rest % v.shape[d] * v.strides[d] * static_cast<std::int64_t>(size_of(v.dtype));
      for (std::size_t b = 0; b < size_of(v.dtype); ++b) all.insert(at + b);
    }
    return all;
  };
  int shared = 0, apart = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::vector<std::int64_t> whole{draw(1, 4), draw(1, 4), draw(1, 4)};
    const auto slice = [&](std::vector<std::int64_t> strides) {
      std::int64_t offset = 0;
      std::vector<std::int64_t> shape;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        const std::int64_t first = draw(0, whole[i] - 1);
        offset += first * strides[i];
        shape.push_back(draw(round % 7 == 0 ? 0 : 1, whole[i] - first));
      }
      ConstTensorView v = view(0, shape, strides);
      v.dtype = draw(0, 3) == 0 ? DType::bf16 : DType::f32;
      v.data = reinterpret_cast<const std::byte*>(memory) + offset * static_cast<std::int64_t>(size_of(v.dtype));
      return v;
    };
    std::vector<std::int64_t> strides = row_major_strides(whole);
    if (draw(0, 1) == 0) std::swap(strides[0], strides[2]);  // whatever that makes of it
    const auto x = slice(strides), y = slice(draw(0, 3) == 0 ? std::vector<std::int64_t>{draw(0, 9), 2, 1} : strides);
    const auto in_x = bytes(x), in_y = bytes(y);
    const bool expected = std::any_of(in_x.begin(), in_x.end(), [&](const auto* b) { return in_y.contains(b); });
    EXPECT_EQ(share(x, y), expected) << "round " << round;
    ++(expected ? shared : apart);
  }
  EXPECT_GT(std::min(shared, apart), 500);
}

TEST(Views, StridesBeyondAnyMemory) {
  constexpr std::int64_t far = std::int64_t{1} << 62;
  expect_error({memory, DType::f32, {3, 3}, {far, 1}}, {3, 3}, "no memory reaches");
  expect_error({memory, DType::f32, {2, 2}, {far, far}}, {2, 2}, "no memory reaches");
  EXPECT_EQ(checked_strides({memory, DType::f32, {1, 3}, {far, 1}}, {1, 3}, f32, "x").front(), far);
}

TEST(Views, UniformPitch) {
  const Extents e{2, 3, 4, 8};
  EXPECT_TRUE((PixelStrides{96, 32, 8, 1}.uniform(e, 8)));
  EXPECT_TRUE((PixelStrides{240, 80, 20, 1}.uniform(e, 20)));
  EXPECT_FALSE((PixelStrides{240, 80, 20, 1}.uniform(e, 8)));
  EXPECT_FALSE((PixelStrides{100, 32, 8, 1}.uniform(e, 8)));
  EXPECT_TRUE((PixelStrides{7, 5, 8, 1}.uniform({1, 1, 9, 8}, 8)));  // strides of extents of 1 do not count
}

}  // namespace
}  // namespace unisono::cpu
