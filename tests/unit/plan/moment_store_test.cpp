// Moments of what is stored: which epilogues have them.

#include "plan/moment_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "problems.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

using testing::HasSubstr;

Epilogue with_moments(const char* text, const Conv2d& conv, std::int64_t channels) {
  Epilogue e = test::epilogue_of(text, conv);
  test::require(store_moments(e, {"moments", channels}, conv.k));
  return e;
}

TEST(MomentStore, Refused) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 128, 3);
  const auto why = [&](const char* text) {
    const auto refusal = refuse_moments(test::epilogue_of(text, conv));
    return refusal ? refusal->text() : "";
  };
  EXPECT_EQ(why(test::bare), "");
  EXPECT_THAT(why(test::block), HasSubstr("the same launch normalises"));
  EXPECT_EQ(why("h = acc + bias[n]\nstore h : bf16\nstore relu(h) as y : bf16"), "");
  EXPECT_THAT(why("store acc as y : bf16\nstore sum(acc) as s : f32"), HasSubstr("mode general"));
  EXPECT_THROW(with_moments(test::block, conv, 4), Unsupported);
  EXPECT_THROW(with_moments(test::bare, conv, 3), UserError);
  EXPECT_THROW(with_moments(test::bare, conv, -4), UserError);
  Epilogue e = test::epilogue_of(test::bare, conv);
  EXPECT_THROW(test::require(store_moments(e, {"y", 4}, conv.k)), UserError);
  EXPECT_THROW(test::require(store_moments(e, {"", 4}, conv.k)), UserError);
}

}  // namespace
}  // namespace unisono::plan
