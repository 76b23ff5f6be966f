// Rows as text.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/override.hpp"
#include "rows.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::tuning {
namespace {

using testing::HasSubstr;

TEST(Row, LineAndBack) {
  const Row r = test::row("8,64,64,320->320,3x3,pad=1,dtype=bf16");
  EXPECT_EQ(to_line(r),
            "NVIDIA H200/132 | 580.95.05 | 0123456789ab | 8,64,64,320->320,3x3,pad=1,dtype=bf16 | bare #0123 | "
            "tile=128x160 depth=64 | 61.25 us | 63.50 us | 2026-11-21T20:40:12Z");
  const auto rows = parse_rows(to_line(r) + "\n", "text");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(to_line(rows[0]), to_line(r));
  EXPECT_EQ(rows[0].key, r.key);
  EXPECT_EQ(rows[0].platform, r.platform);
}

TEST(Row, TextIsSortedAndSaysItsFields) {
  const std::string text = to_text({test::row("b"), test::row("a")});
  EXPECT_THAT(text, testing::StartsWith("# DEVICE/SMS | DRIVER | "));
  EXPECT_LT(text.find("| a |"), text.find("| b |"));
  EXPECT_EQ(to_text(parse_rows(text, "text")), text);
}

TEST(Row, AnUnknownDriverIsADash) {
  Row r = test::row("a");
  r.platform.driver.clear();
  EXPECT_EQ(parse_rows(to_line(r), "text").at(0).platform.driver, "");
}

TEST(Row, WrongLinesAreNamed) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      parse_rows(text, "plans.txt");
    } catch (const UserError& e) {
      return e.what();
    }
    return "no error";
  };
  const std::string good = to_line(test::row("a"));
  EXPECT_THAT(error("# heading\n\n" + good + "\nnonsense\n"),
              testing::AllOf(HasSubstr("plans.txt, line 4: 'nonsense'"), HasSubstr("expected 'DEVICE/")));
  EXPECT_EQ(error(good + "\r\n"), "no error");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"61.25 us", "61.25"},
                                                                                 {"61.25 us", "-1 us"},
                                                                                 {"61.25 us", "nan us"},
                                                                                 {"/132", ""},
                                                                                 {"/132", "/0"},
                                                                                 {"/132", "/x"},
                                                                                 {" | 2026", " | x | 2026"},
                                                                                 {"| a |", "|  |"}}) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    EXPECT_THAT(error(bad), HasSubstr("line 1")) << bad;
  }
}

TEST(Row, PlansAreReadWithTheirRow) {
  const auto error = [](const std::string& plan) -> std::string {
    try {
      parse_rows(to_line(test::row("a")) + "\n" + to_line(test::row("b", plan)), "plans.txt");
    } catch (const UserError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error("cluster=1x2"), "no error");
  EXPECT_THAT(error("cluster=46341x46341"), Says("plans.txt, line 2: … plan override: cluster=46341x46341: expected "
                                                 "ROWSxCHANNELS in CTAs, such as 1x2; numbers of 1 to 16"));
  EXPECT_THAT(error("clutser=1x2"), HasSubstr("did you mean 'cluster'?"));
  const std::string huge = error(std::string(100000, 'x'));
  EXPECT_THAT(huge, HasSubstr("row of measured plans"));
  EXPECT_LT(huge.size(), 1000u);
}

TEST(Row, WhatTravelsInTheLibraryCanBeRead) {
  for (const Row& r : parse_rows(shipped_text(), "the library"))
    EXPECT_FALSE(parse_plan(r.plan).fields.empty()) << to_line(r);
}

}  // namespace
}  // namespace unisono::tuning
