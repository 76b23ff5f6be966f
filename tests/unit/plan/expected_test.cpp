// What steps on the way down answer.

#include "plan/expected.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace unisono::plan {
namespace {

Refusal refusal() { return {.scope = Refusal::Scope::plan, .reasons = {"size: 9", "batch: 2"}}; }

std::string thrown_by(const Expected<int>& x) {
  try {
    return "served: " + std::to_string(x.value());
  } catch (const Refused& error) {
    EXPECT_EQ(error.refusal().reasons, refusal().reasons);
    return error.what();
  }
}

TEST(Expected, IsAValueOrARefusal) {
  const Expected<int> seven = 7, none = refusal();
  EXPECT_TRUE(seven);
  EXPECT_EQ(*seven, 7);
  EXPECT_FALSE(none);
  EXPECT_EQ(none.refusal().scope, Refusal::Scope::plan);
  EXPECT_EQ(none.refusal().first(), "size: 9");
}

TEST(Expected, ThrowsForWhoeverWantsTheValueAlone) {
  EXPECT_EQ(thrown_by(7), "served: 7");
  EXPECT_EQ(thrown_by(refusal()), "size: 9\n  batch: 2");
  Refusal told = refusal();
  told.message = "no kernel serves it:\n  size: 9\n  batch: 2";
  EXPECT_EQ(thrown_by(told), told.message);
  EXPECT_EQ(told.text(), "size: 9\n  batch: 2");
}

TEST(Expected, IsMovedFrom) {
  Expected<std::unique_ptr<int>> x = std::make_unique<int>(3);
  EXPECT_EQ(**x, 3);
  const std::unique_ptr<int> taken = std::move(x).value();
  EXPECT_EQ(*taken, 3);
}

}  // namespace
}  // namespace unisono::plan
