#include "tensors/fault.hpp"

#include <gtest/gtest.h>

#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {
namespace {

TEST(Fault, ReadsAsTheCpusErrors) {
  EXPECT_EQ(text_of({}), "");
  EXPECT_THAT(text_of({.launch = 3, .fault = kIndexOutside, .index = -6, .extent = 5}),
              Says("index -6 is outside … extent 5"));
  EXPECT_EQ(text_of({.launch = 1, .fault = kDivisionByZero, .index = 0, .extent = 0}), "integers are divided by 0");
  EXPECT_THROW(text_of({.launch = 1, .fault = 77, .index = 0, .extent = 0}), InternalError);
}

}  // namespace
}  // namespace unisono::tensors
