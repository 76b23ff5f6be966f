// Where outputs stand: slices of wider tensors, in place over an operand, over one another.

#include <gmock/gmock.h>

#include <bit>
#include <cmath>

#include "runtime/cpu/epilogue.hpp"
#include "support/random.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/cpu/problem.hpp"

namespace unisono::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Conv2d convolution{.n = 2, .h = 9, .w = 11, .c = 5, .k = 12, .r = 3, .s = 3, .pad = {1, 1, 1, 1}};
const std::vector<std::int64_t> shape{2, 9, 11, 12};
constexpr std::int64_t pixels = 2 * 9 * 11;
constexpr float poison = -12345.0f;

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  Random r(seed);
  std::vector<float> x(count);
  for (float& v : x) v = static_cast<float>(r.uniform(-1, 1));
  return x;
}

TensorView slice(std::vector<float>& wide, std::int64_t width, std::int64_t offset) {
  return {wide.data() + offset, DType::f32, shape, {99 * width, 11 * width, width, 1}};
}

void expect_ok(const reference::Values& expected, const Contraction& contraction, const ConstTensorView& view) {
  const auto found = reference::compare(expected, contraction, view);
  EXPECT_TRUE(found.ok()) << found.outside << " of " << found.elements << " outside; element " << found.worst_index
                          << " is " << found.worst_actual << " instead of " << found.worst_expected;
}

class CpuMemory : public ::testing::Test {
 protected:
  std::vector<float> x = random_values(pixels * 5, 1), w = random_values(12 * 9 * 5, 2),
                     r = random_values(pixels * 12, 3);
  std::vector<float> gamma = random_values(12, 4);
  Arguments arguments;

  CpuMemory() {
    arguments.image = {x.data(), DType::f32, {2, 9, 11, 5}, {}};
    arguments.filter = {w.data(), DType::f32, {12, 3, 3, 5}, {}};
  }
  void refuse(const std::string& text, const std::string& message) {
    const Executable kernel = compile(convolution, parse(text));
    try {
      kernel.run(arguments);
      FAIL() << "accepted; expected: " << message;
    } catch (const UserError& e) {
      EXPECT_THAT(e.what(), Says(message));
    }
  }
};

// A slice of a concatenation: what lies between its pixels stays
TEST_F(CpuMemory, SliceOfAWiderTensor) {
  for (const std::string text :
       {"store acc as y", "store relu(acc) as y", "store silu(group_norm(acc, groups=3, scale=gamma[n])) as y"}) {
    const Graph graph = parse(text);
    Arguments a = arguments;
    std::vector<float> wide(pixels * 20, poison);
    a.outputs["y"] = slice(wide, 20, 3);
    if (text.find("gamma") != std::string::npos) a.operands["gamma"] = {gamma.data(), DType::f32, {12}, {}};
    compile(convolution, graph).run(a);
    expect_ok(reference::run(convolution, graph, a).at("y"), convolution, a.outputs["y"]);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      if (i % 20 < 3 || i % 20 >= 15) {
        ASSERT_EQ(wide[i], poison) << text << " wrote between the slice's pixels, at " << i;
      }
    }
  }
}

// Channels first: in groups of rows, of which those that fill no line wait; around the output nothing is written. The
// large one goes past the caches.
TEST_F(CpuMemory, ChannelsFirstOutput) {
  struct Case {
    Conv2d c;
    std::int64_t gap;  // floats between the rows of pixels
  };
  const Conv2d small{.n = 2, .h = 9, .w = 11, .c = 5, .k = 12, .r = 3, .s = 3, .pad = {1, 1, 1, 1}};
  const Conv2d even{.n = 2, .h = 12, .w = 16, .c = 5, .k = 36, .r = 3, .s = 3, .pad = {1, 1, 1, 1}};
  const Conv2d large{.n = 1, .h = 120, .w = 128, .c = 2, .k = 36, .r = 1, .s = 1};
  for (const Case& t : {Case{small, 0}, Case{small, 3}, Case{even, 0}, Case{even, 16}, Case{large, 0}, Case{large, 5}})
    for (const std::string text :
         {"store acc as y", "store relu(acc + bias[n]) as y", "store silu(group_norm(acc + bias[n], groups=4)) as y",
          "h = mish(group_norm(acc + bias[n], groups=2))\nstore h as y\nstore group_norm(h, groups=4) as z"})
      for (const std::int64_t offset : {0, 1, 7}) {
        const Conv2d& c = t.c;
        if (c.h == large.h && text.find("silu") == std::string::npos) continue;
        const Graph graph = parse(text);
        const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
        const auto image = random_values(count(c.n * c.h * c.w * c.c), 5),
                   filter = random_values(count(c.k * c.r * c.s * c.c), 6), bias = random_values(count(c.k), 7);
        Arguments a;
        a.image = {image.data(), DType::f32, shape_a(c), {}};
        a.filter = {filter.data(), DType::f32, shape_b(c), {}};
        if (text.find("bias") != std::string::npos) a.operands["bias"] = {bias.data(), DType::f32, {c.k}, {}};
        const std::int64_t row = c.w + t.gap, plane = c.h * row, all = c.n * c.k * plane;
        std::map<std::string, std::vector<float>> memory;
        for (const Store& s : graph.stores) {
          auto& m = memory[s.name] = std::vector<float>(count(all + 64), poison);
          a.outputs[s.name] = {m.data() + 16 + offset, DType::f32, shape_mn(c), {c.k * plane, row, 1, plane}};
        }
        compile(c, graph).run(a);
        for (const auto& [name, values] : reference::run(c, graph, a, {.function_ulps = cpu::function_ulps}))
          expect_ok(values, c, a.outputs[name]);
        for (const auto& [name, m] : memory)
          for (std::size_t i = 0; i < m.size(); ++i) {
            const std::int64_t at = static_cast<std::int64_t>(i) - 16 - offset;
            if (at < 0 || at >= all || at % row >= c.w) {
              ASSERT_EQ(m[i], poison) << text << " wrote beside output " << name << ", at " << at;
            }
          }
      }
}

TEST_F(CpuMemory, ImageThatIsASlice) {
  const Graph graph = parse("store acc as y");
  std::vector<float> wide = random_values(pixels * 9, 7), y(pixels * 12);
  arguments.image = {wide.data() + 2, DType::f32, {2, 9, 11, 5}, {99 * 9, 11 * 9, 9, 1}};
  arguments.outputs["y"] = {y.data(), DType::f32, shape, {}};
  compile(convolution, graph).run(arguments);
  expect_ok(reference::run(convolution, graph, arguments).at("y"), convolution, arguments.outputs["y"]);
}

// Two slices of one tensor share no element, so both may be outputs
TEST_F(CpuMemory, TwoOutputsInOneTensor) {
  const Graph graph = parse("store relu(acc) as y\nstore -acc as z");
  std::vector<float> wide(pixels * 24, poison);
  arguments.outputs["y"] = slice(wide, 24, 0);
  arguments.outputs["z"] = slice(wide, 24, 12);
  compile(convolution, graph).run(arguments);
  const auto expected = reference::run(convolution, graph, arguments);
  expect_ok(expected.at("y"), convolution, arguments.outputs["y"]);
  expect_ok(expected.at("z"), convolution, arguments.outputs["z"]);
}

TEST_F(CpuMemory, OutputsThatOverlapAreRefused) {
  std::vector<float> wide(pixels * 24);
  arguments.outputs["y"] = slice(wide, 24, 0);
  arguments.outputs["z"] = slice(wide, 24, 11);
  refuse("store relu(acc) as y\nstore -acc as z", "output y and output z share memory");
}

// The residual is overwritten by the sum, in the first stage and in the last
TEST_F(CpuMemory, InPlaceOverAnOperand) {
  for (const std::string text : {"store relu(acc + r[m,n]) as y", "store group_norm(acc, groups=3) + r[m,n] as y",
                                 "store group_norm(acc + r[m,n], groups=3) as y",
                                 "h = acc + r[m,n]\nstore h * r[m,n] as y\nstore r[m,n] as z"}) {
    const Graph graph = parse(text);
    Arguments a = arguments;
    std::vector<float> memory = r, other(pixels * 12);
    a.operands["r"] = {memory.data(), DType::f32, shape, {}};
    a.outputs["y"] = {memory.data(), DType::f32, shape, {}};
    if (graph.stores.size() > 1) a.outputs["z"] = {other.data(), DType::f32, shape, {}};
    const auto expected = reference::run(convolution, graph, a);  // before the operand is gone
    compile(convolution, graph).run(a);
    for (const auto& [name, values] : expected) expect_ok(values, convolution, a.outputs[name]);
  }
}

TEST_F(CpuMemory, InPlaceIsRefusedWhereTheOperandIsReadAgain) {
  arguments.operands["r"] = {r.data(), DType::f32, shape, {}};
  arguments.outputs["y"] = {r.data(), DType::f32, shape, {}};
  std::vector<float> z(pixels * 12);
  arguments.outputs["z"] = {z.data(), DType::f32, shape, {}};
  refuse("h = acc + r[m,n]\nstore h as y\nstore group_norm(h, groups=3) * r[m,n] as z", "reads again");
}

TEST_F(CpuMemory, InPlaceIsRefusedForOtherElements) {
  std::vector<float> memory(pixels * 12 + 12);
  arguments.operands["r"] = {memory.data() + 12, DType::f32, shape, {}};
  arguments.outputs["y"] = {memory.data(), DType::f32, shape, {}};
  refuse("store acc + r[m,n] as y", "not element by element");
  arguments.operands.clear();
  arguments.operands["bias"] = {memory.data(), DType::f32, {12}, {}};
  refuse("store acc + bias[n] as y", "shares memory with operand bias[n]");
}

TEST_F(CpuMemory, OutputOverTheFilterIsRefused) {
  std::vector<float> memory(4096);
  arguments.filter.data = memory.data();
  arguments.outputs["y"] = {memory.data(), DType::f32, {12}, {}};
  refuse("store sum(acc, over=m) as y", "shares memory with the filter");
}

// The accumulators stand in an output that is written when they are done with; the other outputs read them until then
TEST_F(CpuMemory, SeveralOutputsOfTheAccumulator) {
  for (const std::string text : {"store silu(group_norm(acc, groups=3)) as y\nstore acc as z",
                                 "store acc as y\nstore group_norm(acc, groups=3) as z",
                                 "h = group_norm(acc, groups=3)\nstore h as y\nstore h * acc as z",
                                 "h = group_norm(acc, groups=3)\nstore exp(h) as y\nstore acc - h as z",
                                 "store acc as y\nstore acc as z", "h = acc * 2\nstore h as y\nstore h as z"}) {
    const Graph graph = parse(text);
    Arguments a = arguments;
    std::vector<float> y(pixels * 12, poison), z(pixels * 12, poison);
    a.outputs["y"] = {y.data(), DType::f32, shape, {}};
    a.outputs["z"] = {z.data(), DType::f32, shape, {}};
    compile(convolution, graph).run(a);
    for (const auto& [name, values] : reference::run(convolution, graph, a)) {
      SCOPED_TRACE(text + ", output " + name);
      expect_ok(values, convolution, a.outputs[name]);
    }
  }
}

// ---- Epilogues without a contraction ----

constexpr Extents space{.images = 2, .height = 9, .width = 11, .cols = 12};
// A product with the identity stands for the tensor in the reference
reference::Values exact(const std::vector<float>& a) { return {axes::mn, {a.begin(), a.end()}, {}}; }

TEST_F(CpuMemory, EpilogueOverATensor) {
  for (const std::string text :
       {"store relu(acc) as y", "store silu(group_norm(acc, groups=3)) as y", "store softmax(acc, over=n) as y"}) {
    const Graph graph = parse(text);
    const auto expected = reference::evaluate(graph, convolution, exact(r), {});
    for (const std::int64_t width : {12, 17}) {        // of the tensor that a is a slice of
      for (const std::int64_t out_width : {12, 31}) {  // of the output's
        std::vector<float> in(static_cast<std::size_t>(pixels * width), poison);
        for (std::int64_t i = 0; i < pixels; ++i)
          for (std::int64_t n = 0; n < 12; ++n) in[i * width + n] = r[i * 12 + n];
        std::vector<float> out(static_cast<std::size_t>(pixels * out_width), poison);
        Arguments a;
        a.image = slice(in, width, 0);
        a.outputs["y"] = slice(out, out_width, 0);
        cpu::compile_epilogue(space, graph).run(a);
        expect_ok(expected.at("y"), convolution, a.outputs["y"]);
      }
    }
  }
}

TEST_F(CpuMemory, EpilogueInPlace) {
  for (const std::string text :
       {"store mish(acc) as y", "store silu(group_norm(acc, groups=3)) as y", "store acc * acc + exp(acc) as y"}) {
    const Graph graph = parse(text);
    const auto expected = reference::evaluate(graph, convolution, exact(r), {});
    for (const std::int64_t width : {12, 20}) {
      std::vector<float> memory(static_cast<std::size_t>(pixels * width), poison);
      for (std::int64_t i = 0; i < pixels; ++i)
        for (std::int64_t n = 0; n < 12; ++n) memory[i * width + n] = r[i * 12 + n];
      Arguments a;
      a.image = slice(memory, width, 0);
      a.outputs["y"] = slice(memory, width, 0);
      SCOPED_TRACE(text);
      cpu::compile_epilogue(space, graph).run(a);
      expect_ok(expected.at("y"), convolution, a.outputs["y"]);
    }
  }
}

TEST_F(CpuMemory, EpilogueInPlaceIsRefusedWhereTheTensorIsReadAgain) {
  const Graph graph = parse("store relu(acc) as y\nstore group_norm(acc, groups=3) as z");
  std::vector<float> z(pixels * 12);
  Arguments a;
  a.image = a.outputs["y"] = {r.data(), DType::f32, shape, {}};
  a.outputs["z"] = {z.data(), DType::f32, shape, {}};
  const Executable kernel = cpu::compile_epilogue(space, graph);
  EXPECT_THROW(kernel.run(a), UserError);
  std::swap(a.outputs["y"], a.outputs["z"]);
  EXPECT_NO_THROW(kernel.run(a));
}

TEST(CpuUnusedAccumulator, NeedsNoOperands) {
  const Graph graph = parse("store bias[n] * 2 as y");
  std::vector<float> bias = random_values(12, 9), y(12);
  Arguments a;
  a.operands["bias"] = {bias.data(), DType::f32, {12}, {}};
  a.outputs["y"] = {y.data(), DType::f32, {12}, {}};
  const Executable kernel = compile(convolution, graph);
  kernel.run(a);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], 2 * bias[i]);
  EXPECT_THAT(kernel.describe(), HasSubstr("not computed, as nothing reads it"));
}

TEST(CpuDescribe, SaysWhichPathWasTaken) {
  const std::string block =
      compile(convolution, parse("store silu(group_norm(acc + bias[n], groups=3)) as y")).describe();
  EXPECT_THAT(block, HasSubstr("conv2d 2x9x11x5 -> 12"));
  EXPECT_THAT(block, HasSubstr("oneDNN f32"));
  EXPECT_THAT(block, HasSubstr("kept between stages: the accumulators"));
  EXPECT_THAT(block, HasSubstr("reduces over rows"));
  EXPECT_THAT(block, HasSubstr("stores y"));
  Conv2d half = convolution;
  half.dtype_x = DType::f16;
  EXPECT_THAT(compile(half, parse("store acc as y")).describe(), HasSubstr("a is f16 and converted to f32"));
  EXPECT_THAT(compile(convolution, parse("store acc as y")).describe(), Not(HasSubstr("converted")));
}

}  // namespace
}  // namespace unisono::test
