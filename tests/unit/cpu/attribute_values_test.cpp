// One kernel for every slope, limit, alpha and beta: given by value or by pointer, from run to run.

#include <fmt/format.h>

#include <array>

#include "unit/cpu/problem.hpp"

namespace unisono::test {
namespace {

const std::array<const char*, 4> names{"slope", "alpha", "lower", "upper"};
using Setting = std::array<float, 4>;
constexpr std::array<Setting, 4> settings{
    {{0.25F, 1, -1, 1}, {-2, 0.5F, 0, 6}, {0, -1.5F, -0.25F, 0.5F}, {1, 2, 1, 1}}};

std::string text_of(const std::string& slope, const std::string& alpha, const std::string& lower,
                    const std::string& upper) {
  return fmt::format(
      "h = acc + bias[n]\n"
      "store clamp(leaky_relu(h, slope={0}), lower={2}, upper={3}) as y : f32\n"
      "store elu(h, alpha={1}) as z : f32\n"
      "store hardsigmoid(cast(h, bf16), alpha={1}, beta={0}) as w : bf16\n",
      slope, alpha, lower, upper);
}

RandomCase with_values() {
  return problem(Gemm{.m = 37, .n = 22, .k = 19}, text_of("slope[]", "alpha[]", "lower[]", "upper[]"), 3);
}

// Every element agrees with the float64 reference of the graph whose attributes are these numbers
void expect_numbers(const RandomCase& c, const Setting& s) {
  const Graph numbers = parse(
      text_of(fmt::format("{}", s[0]), fmt::format("{}", s[1]), fmt::format("{}", s[2]), fmt::format("{}", s[3])));
  Arguments arguments = c.arguments;
  for (const char* name : names) arguments.operands.erase(name), arguments.scalars.erase(name);
  const auto expected = reference::run(c.contraction, numbers, arguments, {.function_ulps = cpu::function_ulps});
  ASSERT_EQ(expected.size(), 3u);
  for (const auto& [name, values] : expected) {
    const auto found = reference::compare(values, c.contraction, c.arguments.outputs.at(name));
    EXPECT_TRUE(found.ok()) << name << " with slope " << s[0] << ": element " << found.worst_index << " is "
                            << found.worst_actual << " instead of " << found.worst_expected;
    EXPECT_EQ(found.unclaimed, 0) << name;
  }
}

TEST(CpuAttributeValues, ByValue) {
  RandomCase c = with_values();
  const Executable kernel = compile(c.contraction, c.graph, options_of(c, 2));
  for (const Setting& s : settings) {
    for (std::size_t i = 0; i < names.size(); ++i)
      c.arguments.operands.erase(names[i]), c.arguments.scalars[names[i]] = s[i];
    poison_outputs(c);
    kernel.run(c.arguments);
    expect_numbers(c, s);
  }
}

TEST(CpuAttributeValues, ByPointer) {
  RandomCase c = with_values();
  const Executable kernel = compile(c.contraction, c.graph, options_of(c, 2));
  Setting memory{};
  for (std::size_t i = 0; i < names.size(); ++i)
    c.arguments.scalars.erase(names[i]), c.arguments.operands[names[i]] = {&memory[i], DType::f32, {}, {}};
  for (const Setting& s : settings) {
    memory = s;
    poison_outputs(c);
    kernel.run(c.arguments);
    expect_numbers(c, s);
  }
}

}  // namespace
}  // namespace unisono::test
