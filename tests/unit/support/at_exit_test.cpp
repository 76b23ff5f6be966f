#include "support/at_exit.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace unisono::support {
namespace {

TEST(AtExit, CallsInReverseOrderAlsoAfterAnException) {
  std::string calls;
  const auto scope = [&](bool fails) {
    const AtExit first([&] { calls += 'a'; });
    const AtExit second([&] { calls += 'b'; });
    if (fails) throw std::runtime_error("");
    calls += '-';
  };
  scope(false);
  EXPECT_THROW(scope(true), std::runtime_error);
  EXPECT_EQ(calls, "-baba");
}

TEST(Restored, GivesAVariableItsValueBack) {
  std::string name = "before";
  int depth = 1;
  try {
    const Restored inner(name, name + " and within");
    const Restored deeper(depth, depth + 1);
    EXPECT_EQ(name, "before and within");
    EXPECT_EQ(depth, 2);
    name = "changed", depth = 7;
    throw std::runtime_error("");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(name, "before");
  EXPECT_EQ(depth, 1);
}

}  // namespace
}  // namespace unisono::support
