// Wrong arguments are refused before anything is written, with a message that says what was expected.

#include <gmock/gmock.h>

#include <functional>

#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/cpu/problem.hpp"

namespace unisono::test {
namespace {

using ::testing::HasSubstr;

class CpuArguments : public ::testing::Test {
 protected:
  RandomCase c = problem(Conv2d{.n = 1, .h = 5, .w = 4, .c = 3, .k = 6, .r = 3, .s = 3},
                         "store acc + bias[n] + r[m,n] as y : f32\n");
  Executable kernel = compile(c.contraction, c.graph, options_of(c, 1));

  void expect_refusal(const std::function<void(Arguments&)>& change, const std::string& message) {
    Arguments arguments = c.arguments;
    change(arguments);
    poison_outputs(c);
    const std::string before = output_bytes(c);
    try {
      kernel.run(arguments);
      FAIL() << "accepted; expected: " << message;
    } catch (const UserError& e) {
      EXPECT_THAT(e.what(), Says(message));
    }
    EXPECT_EQ(output_bytes(c), before) << "something was written";
  }
};

TEST_F(CpuArguments, MissingAndUnknownNames) {
  expect_refusal([](Arguments& a) { a.operands.erase("bias"); },
                 "operand bias[n] is not bound; give … shape (6) and dtype f32 in Arguments::operands");
  expect_refusal([](Arguments& a) { a.outputs.erase("y"); },
                 "output y[m,n] is not bound; give … shape (1,3,2,6) and dtype f32 in Arguments::outputs");
  expect_refusal([](Arguments& a) { a.operands["biass"] = a.operands["bias"]; },
                 "Arguments::operands has biass, but … name; its operands are bias, r; did you mean 'bias'?");
  expect_refusal([](Arguments& a) { a.outputs["z"] = a.outputs["y"]; },
                 "Arguments::outputs has z, but … name; its stores are y");
}

// A name that is misspelt in the text is an operand of its own
TEST(CpuMisspelt, OperandIsFoundByWhatIsBound) {
  RandomCase c =
      problem(Gemm{.m = 4, .n = 8, .k = 4}, "operand gian[n] : f32\nstore acc * gain[n] + gian[n] as y : f32\n");
  c.arguments.operands.erase("gian");
  try {
    compile(c.contraction, c.graph, options_of(c, 1)).run(c.arguments);
    FAIL() << "accepted";
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), Says("operand gian[n] is not bound; give … shape (8) and dtype f32 in Arguments::operands; "
                               "did you mean 'gain'?"));
  }
}

TEST_F(CpuArguments, WrongShapeDtypeAndPointer) {
  expect_refusal([](Arguments& a) { a.operands["bias"].shape = {5}; }, "bias");
  expect_refusal([](Arguments& a) { a.operands["bias"].dtype = DType::f64; }, "f64");
  expect_refusal([](Arguments& a) { a.image.shape[1] = 6; }, "the image");
  expect_refusal([](Arguments& a) { a.filter.data = nullptr; }, "the filter");
  expect_refusal([](Arguments& a) { a.outputs["y"].strides = {72, 24, 6, -1}; }, "y");
  expect_refusal([](Arguments& a) { a.outputs["y"].strides = {0, 0, 0, 0}; }, "y");
}

TEST_F(CpuArguments, FactorsOfAnotherContraction) {
  expect_refusal([](Arguments& a) { std::swap(a.image, a.left); },
                 "Arguments::left was given to a convolution, which multiplies Arguments::image and filter");
  expect_refusal([](Arguments& a) { a.right = a.filter; },
                 "Arguments::right was given to a convolution, which multiplies Arguments::image and filter");
  expect_refusal([](Arguments& a) { a.image = {}; }, "is not bound; give … shape (1,5,4,3) and dtype f32");
  RandomCase product = problem(Gemm{.m = 4, .n = 8, .k = 4}, "store acc as y\n");
  const Executable multiply = compile(product.contraction, product.graph, options_of(product, 1));
  std::swap(product.arguments.left, product.arguments.image);
  try {
    multiply.run(product.arguments);
    FAIL() << "accepted";
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(),
                HasSubstr("Arguments::image was given to a product, which multiplies Arguments::left and right"));
  }
}

// A product without a batch: what is given as matrices is what is given as a batch of one
TEST(CpuProducts, MatricesWithoutABatch) {
  for (const bool transposed : {false, true})
    for (const bool constant : {false, true}) {
      RandomCase c = problem(Gemm{.m = 37, .n = 20, .k = 9, .transpose_a = transposed, .transpose_b = transposed},
                             "store relu(acc + bias[n]) * r[m,n] + t[b,n] as y\nstore sum(acc, over=n) as s\n");
      const auto expected = reference::run(c.contraction, c.graph, c.arguments);
      Arguments as_matrices = c.arguments;
      for (ConstTensorView* view : {&as_matrices.left, &as_matrices.right, &as_matrices.operands.at("r")}) {
        ASSERT_EQ(view->shape.size(), 3u);
        view->shape.erase(view->shape.begin());
        if (!view->strides.empty()) view->strides.erase(view->strides.begin());
      }
      TensorView& y = as_matrices.outputs.at("y");
      y.shape.erase(y.shape.begin());
      if (!y.strides.empty()) y.strides.erase(y.strides.begin());
      EXPECT_EQ(reference::run(c.contraction, c.graph, as_matrices).at("y").value, expected.at("y").value);
      CompileOptions options = options_of(c, 1);
      if (constant) options.constant_filter = as_matrices.right;
      const Executable kernel = compile(c.contraction, c.graph, options);
      poison_outputs(c);
      kernel.run(as_matrices);
      for (const auto& [name, values] : expected)
        EXPECT_TRUE(reference::compare(values, c.contraction, as_matrices.outputs.at(name)).ok()) << name;
      as_matrices.left.shape = {36, 9};
      EXPECT_THROW(kernel.run(as_matrices), UserError);
    }
}

TEST_F(CpuArguments, OutputOverInput) {
  expect_refusal([](Arguments& a) { a.outputs["y"].data = const_cast<void*>(a.image.data); }, "y");
}

TEST(CpuCompile, RefusesWhatItCannotServe) {
  const Graph graph = parse("store acc : f32\n");
  EXPECT_THROW(compile(Gemm{.m = 2, .n = 2, .k = 2, .dtype_a = DType::f64, .dtype_b = DType::f64}, graph), Unsupported);
  EXPECT_THROW(compile(Gemm{.m = 2, .n = 2, .k = 0}, graph), UserError);
  EXPECT_THROW(compile(Gemm{.m = 2, .n = 6, .k = 2}, parse("store group_norm(acc, groups=4) : f32\n")), UserError);
  CompileOptions options;
  options.threads = -1;
  EXPECT_THROW(compile(Gemm{.m = 2, .n = 6, .k = 2}, graph, options), UserError);
}

}  // namespace
}  // namespace unisono::test
