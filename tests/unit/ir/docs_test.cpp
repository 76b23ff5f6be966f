// docs/text-form.md: its programs parse, and its tables hold every operation with the defaults of the op table.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "ir/number.hpp"
#include "ir/op_table.hpp"
#include "support/sources.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

std::vector<std::string> lines() {
  std::ifstream in(test::source_path("docs/text-form.md"));
  EXPECT_TRUE(in) << test::source_path("docs/text-form.md");
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

// The blocks fenced as ```unisono
std::vector<std::string> programs() {
  std::vector<std::string> blocks;
  bool inside = false;
  for (const auto& line : lines()) {
    if (line.starts_with("```")) {
      inside = line == "```unisono";
      if (inside) blocks.emplace_back();
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

// First cells of the rows of section 5, the operations
std::string signatures() {
  std::string cells;
  bool inside = false;
  for (const auto& line : lines()) {
    if (line.starts_with("## ")) inside = line.starts_with("## 5.");
    if (inside && line.starts_with("| `")) cells += line.substr(0, line.find(" | ")) + "\n";
  }
  return cells;
}

TEST(Docs, ProgramsParseAndRoundTrip) {
  const std::vector<UserFunction> functions{
      {.name = "probe", .arity = 1, .returns_value = false, .cuda_source = "x", .cpu = {}},
      {.name = "warp", .arity = 2, .returns_value = true, .cuda_source = "x", .cpu = {}}};
  EXPECT_GE(programs().size(), 8u);
  for (const auto& program : programs()) {
    const Graph g = parse(program, functions);
    EXPECT_TRUE(structurally_equal(g, parse(print(g), functions))) << program;
  }
}

TEST(Docs, ListEveryOperationWithItsDefaults) {
  const std::string all = signatures();
  for (int i = 0; i < op_count; ++i) {
    const auto& row = ir::info(static_cast<Op>(i));
    if (row.op_class == ir::OpClass::leaf || row.op == Op::call) continue;
    const auto begin = all.find(fmt::format("`{}(", row.name));
    ASSERT_NE(begin, std::string::npos) << row.name;
    const auto signature = all.substr(begin, all.find(")`", begin) - begin + 1);
    for (const auto& p : row.parameters) {
      const auto value = p.fallback == 1.0 / 6 ? "1/6" : ir::number_text(p.fallback);
      const auto spelt = fmt::format("{}={}", p.name, value);
      EXPECT_THAT(signature, testing::AnyOf(testing::HasSubstr(spelt + ","), testing::HasSubstr(spelt + ")")));
    }
  }
}

}  // namespace
}  // namespace unisono
