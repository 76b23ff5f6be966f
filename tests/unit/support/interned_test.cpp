#include "support/interned.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace unisono::support {
namespace {

template <class T>
std::shared_ptr<const std::vector<T>> interned_of(std::size_t count, T value) {
  auto made = std::make_shared<const std::vector<T>>(count, value);
  const auto bytes = std::as_bytes(std::span(*made));
  return interned(std::move(made), bytes);
}

TEST(Interned, EqualBytesAreOnce) {
  const auto one = interned_of(5000, std::byte{1}), two = interned_of(5000, std::byte{2});
  EXPECT_EQ(interned_of(5000, std::byte{1}), one);
  EXPECT_EQ(one.use_count(), 1);  // nothing else keeps it
  EXPECT_NE(one, two);
  EXPECT_NE(interned_of(5001, std::byte{1}), one);
}

TEST(Interned, OwnersOfAnotherTypeAreOthers) {
  const auto bytes = interned_of(6000, std::byte{0});
  const auto floats = interned_of(1500, 0.0f);
  EXPECT_NE(static_cast<const void*>(bytes->data()), floats->data());
}

TEST(Interned, WhatIsGoneIsNotFound) {
  for (int i = 0; i < 300; ++i) {  // forgets them meanwhile
    const auto one = interned_of(5000, static_cast<std::byte>(i % 3));
    EXPECT_EQ(one->front(), static_cast<std::byte>(i % 3));
    EXPECT_EQ(one.use_count(), 1);
  }
}

TEST(Interned, SmallOnesStayApart) { EXPECT_NE(interned_of(8, std::byte{1}), interned_of(8, std::byte{1})); }

}  // namespace
}  // namespace unisono::support
