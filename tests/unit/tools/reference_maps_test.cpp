/// The table of maps (unisono/network/maps.def): what the CPU computes of each row is what the float64 reference does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "command/execution.hpp"
#include "reference/network/tensors.hpp"
#include "unisono/dtype.hpp"
#include "unisono/error.hpp"

namespace unisono::command {

using namespace float64;

namespace {

struct Row {
  const char* name;
  MapOp op;
  int operands;
};
constexpr Row rows[] = {
#define UNISONO_MAP(NAME, OPERANDS, ...) {#NAME, MapOp::NAME, OPERANDS},
#include "unisono/network/maps.def"
};
constexpr DType dtypes[] = {DType::boolean, DType::u8,  DType::i8,  DType::u16, DType::i16, DType::u32,
                            DType::i32,     DType::u64, DType::i64, DType::f32, DType::f64};
// Products and powers of these leave the range of 8 bits. No second operand is 0, by which no integer is divided
const std::vector<float> x_values{-3, -0.5f, 0, 0.5f, 1, 2.5f, 5, 60}, y_values{2, 1, 3, 1, 2, 1, 3, 3};

Tensor64 converted(const std::vector<float>& values, DType to) {
  Tensor64 x{{static_cast<std::int64_t>(values.size())}, {values.begin(), values.end()}, {}};
  x.bound.assign(values.size(), 0.0);
  x.dtype = DType::f32;
  Tensor64 y = evaluate_tensors(operators::Map{MapOp::cast, to}, {&x});
  y.dtype = to;
  return y;
}

/// The operator on these numbers as `dtype`; throws UserError for a type that it does not take.
std::vector<double> on_the_cpu(const Row& row, DType dtype) {
  NetworkBuilder net;
  std::vector<NetworkValue> operands;
  Tensors inputs;
  for (int i = 0; i < row.operands; ++i) {
    const std::string name = i == 0 ? "x" : "y";
    const auto& values = i == 0 ? x_values : y_values;
    const auto extent = static_cast<std::int64_t>(values.size());
    operands.push_back(net.apply(operators::Map{MapOp::cast, dtype}, {net.input(name, {extent})}));
    inputs[name] = to_array(Tensor32{{extent}, values});
  }
  const NetworkValue result = net.apply(operators::Map{row.op}, operands);
  net.output(net.apply(operators::Map{MapOp::cast, DType::f64}, {result}), "result");
  return to_float64(execute(compile(net.build()), inputs, 0).outputs).at("result").value;
}

testing::Matcher<double> near(double value, double bound) {
  return std::isnan(value)   ? testing::Matcher<double>(testing::IsNan())
         : std::isinf(value) ? testing::Matcher<double>(value)
                             : testing::Matcher<double>(testing::DoubleNear(value, bound));
}

/// Whether the operator takes the type, and then that its results are right.
bool agrees(const Row& row, DType dtype) {
  std::vector<double> got;
  try {
    got = on_the_cpu(row, dtype);
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("expected")) << row.name << " of " << to_string(dtype);
    return false;
  }
  const Tensor64 x = converted(x_values, dtype), y = converted(y_values, dtype);
  const ReferenceInputs operands = row.operands == 1 ? ReferenceInputs{&x} : ReferenceInputs{&x, &y};
  Tensor64 expected;
  try {
    expected = evaluate_tensors(operators::Map{row.op}, operands);
  } catch (const Unsupported&) {
    EXPECT_EQ(size_of(dtype), 8u) << row.name;  // of integers that no float64 is
    return true;
  }
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_THAT(got[i], near(expected.value[i], expected.bound[i]))
        << row.name << " of " << to_string(dtype) << ": " << x.value[i] << ", " << y.value[i];
  return true;
}

TEST(ReferenceMaps, CpuAgreesInEveryTypeThatARowTakes) {
  for (const Row& row : rows) {
    int types = 0;
    for (const DType dtype : dtypes) types += agrees(row, dtype);
    EXPECT_GT(types, 0) << row.name;
  }
}

}  // namespace
}  // namespace unisono::command
