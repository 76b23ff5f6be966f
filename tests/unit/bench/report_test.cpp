// Results as JSON and as a table.

#include "bench/report.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "unisono/error.hpp"

namespace unisono::bench {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Suite suite() {
  return parse_suite(
      "suite block\nepilogue block\n  store silu(acc + bias[n]) as y : {dtype}\ncase 2,16,16,64,64,3\ncase "
      "1,8,8,64,64,1\n",
      "f");
}

Result measured() {
  Result r;
  r.unisono = {50, 0.02, 48, 40}, r.again = {51, 0.01, 49, 40};
  r.bare = Timing{40, 0.03, 39, 40}, r.peers = {{"cudnn", Timing{25, 0.01, 24, 40}, "proposal 2 of 9", ""}};
  r.plan = "128x64", r.bare_plan = "128x128";
  r.launches = 1, r.sets = 16, r.floor_us = 12.5, r.registers = 168;
  r.tried = {{"128x64", 30, 50, ""}, {"128x128", 31, 0, "did not fit"}};
  r.checked = Checked{.elements = 32768, .worst = 0.5, .error = 0.01, .tolerance = 0.02, .largest_error = 0.03};
  return r;
}

TEST(Report, FieldsOfACase) {
  const Suite s = suite();
  const json j = to_json(s.cases[0], measured(), true);
  EXPECT_EQ(j["name"], "2,16,16,64,64,3");
  EXPECT_EQ(j["dtype"], "bf16");
  EXPECT_EQ(j["unisono_us"], 50.0);
  EXPECT_EQ(j["unisono_again_us"], 51.0);
  EXPECT_EQ(j["unisono_bare_us"], 40.0);
  EXPECT_EQ(j["launches"], 1.0);
  EXPECT_EQ(j["spread"], 0.02);
  EXPECT_EQ(j["peers"], (json{{"cudnn", 25.0}}));
  EXPECT_EQ(j["floor_us"], 12.5);
  EXPECT_EQ(j["share_of_floor"], 0.25);
  EXPECT_EQ(j["flop"], s.cases[0].flop());
  EXPECT_EQ(j["bytes"], s.cases[0].bytes());
  EXPECT_EQ(j["max_error"], 0.01);
  EXPECT_EQ(j["tolerance"], 0.02);
  EXPECT_EQ(j["agrees"], true);
  EXPECT_EQ(j["plans"].size(), 2u);
  EXPECT_EQ(j["plans"][0]["us"], 50.0);
  EXPECT_EQ(j["plans"][1]["error"], "did not fit");
  EXPECT_FALSE(j["plans"][1].contains("us"));
  EXPECT_TRUE(is_good(j));
  EXPECT_FALSE(to_json(s.cases[0], measured(), false).contains("plans"));
}

TEST(Report, WhatPeersNeedToKnow) {
  const json j = to_json(suite().cases[0]);
  EXPECT_EQ(j["conv"]["k"], 64);
  EXPECT_EQ(j["conv"]["pad"], (json{1, 1, 1, 1}));
  EXPECT_EQ(j["operands"], (json::array({{{"name", "bias"}, {"axes", "[n]"}, {"dtype", "f32"}, {"shape", {64}}}})));
  EXPECT_EQ(j["text"], "store silu(acc + bias[n]) as y : bf16\n");
  EXPECT_EQ(j["sets"], 128);
  EXPECT_EQ(j["bare"], false);
}

TEST(Report, FailuresAndDisagreements) {
  Result failed;
  failed.error = "no plan ran";
  const json j = to_json(suite().cases[0], failed, false);
  EXPECT_EQ(j["error"], "no plan ran");
  EXPECT_FALSE(j.contains("unisono_us"));
  EXPECT_FALSE(is_good(j));
  for (const auto spoil : {+[](Checked& c) { c.outside = 1; }, +[](Checked& c) { c.unclaimed = 1; },
                           +[](Checked& c) { c.repeats = false; }, +[](Checked& c) { c.elements = 0; }}) {
    Result wrong = measured();
    spoil(*wrong.checked);
    EXPECT_FALSE(is_good(to_json(suite().cases[0], wrong, false)));
  }
  Result unchecked = measured();
  unchecked.checked.reset();
  EXPECT_TRUE(is_good(to_json(suite().cases[0], unchecked, false)));
}

TEST(Report, RivalsAreComparedToo) {
  Result r = measured();
  PeerResult rival{.peer = "cutlass_sm80", .time = Timing{60, 0.01, 59, 40}, .engine = "sm80 128x128", .error = ""};
  rival.checked = Checked{.elements = 32768, .worst = 0.75, .repeats = false, .may_vary = true};
  r.peers.push_back(rival);
  json j = to_json(suite().cases[0], r, false);
  EXPECT_EQ(j["peers"]["cutlass_sm80"], 60.0);
  EXPECT_EQ(j["cutlass_sm80_engine"], "sm80 128x128");
  EXPECT_EQ(j["peer_checked"]["cutlass_sm80"]["error_over_tolerance"], 0.75);
  EXPECT_TRUE(is_good(j)) << "its plan asked for atomic sums";
  for (const auto spoil : {+[](Checked& c) { c.may_vary = false; }, +[](Checked& c) { c.outside = 1; }}) {
    r.peers.back() = rival;
    spoil(*r.peers.back().checked);
    EXPECT_FALSE(is_good(to_json(suite().cases[0], r, false)));
  }
}

TEST(Report, TableHasRatiosAndTheirGeometricMeans) {
  const Suite s = suite();
  Result second = measured();
  second.bare = Timing{12.5, 0, 12, 1}, second.peers = {{"cudnn", {}, "", "no engine"}};
  const json all{{"suite", "block"},
                 {"cases", {to_json(s.cases[0], measured(), false), to_json(s.cases[1], second, false)}}};
  const std::string text = table(all);
  EXPECT_THAT(text, HasSubstr("1.250"));  // over our bare one: 50/40
  EXPECT_THAT(text, HasSubstr("2.236"));  // geometric mean of 1.25 and 4
  EXPECT_THAT(text, HasSubstr("2.000"));  // over cuDNN, of the first alone
  EXPECT_THAT(text, Not(HasSubstr("WRONG")));
}

TEST(Report, TableShowsFailuresAndValuesThatJsonCannotHold) {
  const Suite s = suite();
  Result failed, wrong = measured();
  failed.error = "no plan ran";
  wrong.checked->outside = 7, wrong.checked->worst = std::numeric_limits<double>::infinity();
  const json written{{"suite", "block"},
                     {"cases", {to_json(s.cases[0], failed, false), to_json(s.cases[1], wrong, false)}}};
  const std::string text = table(json::parse(written.dump()));
  EXPECT_THAT(text, HasSubstr("no plan ran"));
  EXPECT_THAT(text, HasSubstr("- WRONG"));
}

TEST(Report, FilesAreWholeOrAnError) {
  const auto folder = std::filesystem::temp_directory_path() / ("unisono_bench_" + std::to_string(::getpid()));
  write_json(folder / "new" / "x.json", {{"a", 1}});
  write_json(folder / "new" / "x.json", {{"a", 2}});
  std::ifstream file(folder / "new" / "x.json");
  EXPECT_EQ(json::parse(file)["a"], 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "new"), {}), 1);
  EXPECT_THROW(write_json(folder / "new", {}), UserError);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace unisono::bench
