// Heads agree with numbers worked out by hand and with the same contraction run by itself.

#include "reference/head.hpp"

#include <gmock/gmock.h>

#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::reference::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* text =
    "y = acc * 0.5\nstore y : bf16\nstore head(y, w, channels=2) {\n  store relu(acc + hb[n]) as h\n}\n";

Arguments arguments_of(const std::vector<float>& filter, const std::vector<std::int64_t>& shape,
                       const std::vector<float>& bias) {
  Arguments a;
  a.operands["w"] = {filter.data(), DType::f32, shape, {}};
  a.operands["hb"] = {bias.data(), DType::f32, {2}, {}};
  return a;
}

TEST(Head, ByHandInBothLayoutsAndOfAProduct) {
  const Graph g = parse("store acc as y\nstore head(acc, w, channels=2) {\n  store relu(acc + hb[n]) as h\n}\n");
  const Values acc{.axes = axes::mn, .value = {1, 2, 3, 4}, .bound = {}};  // two pixels of two channels
  const std::vector<float> filter{1, -1, 2, 0.5}, bias{0, -1};
  Conv2d conv{.h = 1, .w = 2, .c = 1, .k = 2};
  EXPECT_THAT(evaluate(g, conv, acc, arguments_of(filter, {2, 1, 1, 2}, bias)).at("h").value, ElementsAre(0, 2, 0, 7));
  conv.layout = Layout::nchw;
  EXPECT_THAT(evaluate(g, conv, acc, arguments_of(filter, {2, 2, 1, 1}, bias)).at("h").value, ElementsAre(0, 2, 0, 7));
  const Gemm product{.m = 2, .n = 2, .k = 1};
  EXPECT_THAT(evaluate(g, product, acc, arguments_of(filter, {2, 2}, bias)).at("h").value, ElementsAre(0, 2, 0, 7));
}

// The value is multiplied as its store rounds it, and what that may be off is part of the bound
TEST(Head, MultipliesWhatIsStored) {
  const Graph g = parse(text);
  const Values acc{.axes = axes::mn, .value = {2.02, 2, 3, 4}, .bound = std::vector<double>(4, 1e-2)};
  const std::vector<float> filter{1, 0, 0, 1}, bias{0, 0};
  const Values h =
      evaluate(g, Conv2d{.h = 1, .w = 2, .c = 1, .k = 2}, acc, arguments_of(filter, {2, 1, 1, 2}, bias)).at("h");
  EXPECT_EQ(h.value[0], 1.0078125);
  EXPECT_GE(h.bound[0], 0.005);
  EXPECT_LE(h.bound[0], 0.02);
}

TEST(Head, ScratchIsNoResult) {
  const Graph g = parse("store scratch(acc) as y\nstore head(acc, w, channels=2) as h");
  const Values acc{.axes = axes::mn, .value = {1, 2}, .bound = {}};
  const std::vector<float> filter{1, 1, 1, 2}, bias{0, 0};
  auto arguments = arguments_of(filter, {2, 1, 1, 2}, bias);
  const auto all = evaluate(g, Conv2d{.h = 1, .w = 1, .c = 1, .k = 2}, acc, arguments);
  EXPECT_EQ(all.size(), 1u);
  EXPECT_THAT(all.at("h").value, ElementsAre(3, 5));
}

TEST(Head, RefusesAFilterThatIsNone) {
  const Graph g = parse("store acc as y\nstore head(acc, w, channels=2) as h");
  const Values acc{.axes = axes::mn, .value = {1, 2}, .bound = {}};
  const std::vector<float> filter{1, 1, 1, 2}, bias{0, 0};
  const Conv2d conv{.h = 1, .w = 1, .c = 1, .k = 2};
  const auto refusal = [&](const Arguments& arguments) -> std::string {
    try {
      evaluate(g, conv, acc, arguments);
    } catch (const UserError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal({}), HasSubstr("filter w of the head h is not bound"));
  EXPECT_THAT(refusal(arguments_of(filter, {1, 1, 1, 2}, bias)), HasSubstr("filter w of the head h"));
}

}  // namespace
}  // namespace unisono::reference::test
