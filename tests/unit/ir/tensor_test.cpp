// Counts and strides of shapes, up to those that no number holds.

#include "unisono/tensor.hpp"

#include <gtest/gtest.h>

#include "unisono/error.hpp"

namespace unisono {
namespace {

constexpr std::int64_t large = std::int64_t{1} << 31;

TEST(Tensor, CountsAndStrides) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({large, 0, large, large}), 0);
  EXPECT_EQ(row_major_strides({2, 3, 4}), (std::vector<std::int64_t>{12, 4, 1}));
  EXPECT_EQ(row_major_strides({large, large, large}), (std::vector<std::int64_t>{large * large, large, 1}));
}

TEST(Tensor, WhatNoNumberHoldsIsAnError) {
  EXPECT_THROW(element_count({large, large, large}), UserError);
  EXPECT_THROW(element_count({2, -1}), UserError);
  EXPECT_THROW(row_major_strides({0, large, large, large}), UserError);
}

}  // namespace
}  // namespace unisono
