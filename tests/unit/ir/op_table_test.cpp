#include "ir/op_table.hpp"

#include <gtest/gtest.h>

#include "ir/suggest.hpp"
#include "unisono/error.hpp"

namespace unisono::ir {
namespace {

TEST(OpTable, NamesLeadBackToTheirOperations) {
  for (int i = 0; i < op_count; ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    if (row.op_class == OpClass::leaf || row.op == Op::call) {
      EXPECT_FALSE(op_from_name(row.name)) << row.name;
      continue;
    }
    const Op expected = row.op == Op::reduce_max ? Op::max : row.op == Op::reduce_min ? Op::min : row.op;
    EXPECT_EQ(op_from_name(row.name), expected) << row.name;
  }
  EXPECT_FALSE(op_from_name("swish"));
  EXPECT_FALSE(op_from_name(""));
}

TEST(OpTable, ANumberOutsideIsAnError) { EXPECT_THROW(info(static_cast<Op>(op_count)), InternalError); }

TEST(OpTable, ParametersAreDistinctFields) {
  for (int i = 0; i < op_count; ++i) {
    const auto parameters = info(static_cast<Op>(i)).parameters;
    for (std::size_t j = 0; j < parameters.size(); ++j)
      for (std::size_t k = 0; k < j; ++k) {
        EXPECT_NE(parameters[j].name, parameters[k].name);
        EXPECT_FALSE(parameters[j].field == parameters[k].field);
      }
  }
}

}  // namespace
}  // namespace unisono::ir
