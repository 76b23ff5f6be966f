// Which plan is taken, and what is said of rows that cannot be.

#include "tuning/choose.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "families/interface/family.hpp"
#include "support/files.hpp"
#include "support/says.hpp"
#include "tuning/database.hpp"
#include "unit/plan/problems.hpp"

namespace unisono::tuning {
namespace {

using testing::HasSubstr;

class Choose : public testing::Test {
 protected:
  Choose() { ::setenv("UNISONO_TUNING", file.c_str(), 1); }
  ~Choose() override { ::unsetenv("UNISONO_TUNING"); }

  void keep(const std::string& plan) {
    const Row row{platform_of(device), key_of(conv, epilogue), plan, 12.5, 13, now_text()};
    Database(file, Database::Access::write).put({&row, 1});
  }
  Chosen chosen(const std::string& fixed = "", bool measured = true) {
    testing::internal::CaptureStderr();
    Chosen c = choose({conv, epilogue, device}, parse_plan(fixed), measured).value();
    said = testing::internal::GetCapturedStderr();
    return c;
  }

  support::TemporaryFolder folder{std::filesystem::temp_directory_path()};
  std::filesystem::path file = folder.path() / "tuning.db";
  plan::Device device = [] {
    plan::Device d;
    d.name = "a GPU that nothing is shipped for", d.driver = "1";
    return d;
  }();
  Conv2d conv = plan::test::conv_of(8, 64, 64, 320, 320, 3);
  plan::Epilogue epilogue = plan::test::epilogue_of(plan::test::block, conv);
  std::string said;
};

TEST_F(Choose, TheCostModelWhereNothingWasMeasured) {
  const Chosen c = chosen();
  EXPECT_EQ(c.origin, Origin::cost_model);
  EXPECT_EQ(families::override_of(*c.plan), families::override_of(*families::choose({conv, epilogue, device}).value()));
  EXPECT_EQ(said, "");
  EXPECT_FALSE(std::filesystem::exists(file));  // nothing is made by looking
}

TEST_F(Choose, WhatWasMeasured) {
  const auto all = families::candidates({conv, epilogue, device}).value();
  const families::Plan& other = *all[7].plan;
  ASSERT_TRUE(all[7].is_legal());
  keep(to_string(families::override_of(other)));
  const Chosen c = chosen();
  EXPECT_EQ(c.origin, Origin::tuned);
  EXPECT_EQ(families::override_of(*c.plan), families::override_of(other));
  EXPECT_EQ(c.plan->ctas, other.ctas);
  EXPECT_THAT(to_string(c), HasSubstr("12.5 us measured"));
  EXPECT_EQ(chosen("", false).origin, Origin::cost_model);
  EXPECT_EQ(chosen("order=pingpong").origin, Origin::fixed);
  ::setenv("UNISONO_TUNING", "off", 1);
  EXPECT_EQ(chosen().origin, Origin::cost_model);
}

// A measured plan is kept under the library's own spelling of a normalisation, rstd times scale first
TEST_F(Choose, WhatWasMeasuredOfTheSameFactorsInAnotherOrder) {
  const auto written = [&](const char* product) {
    return plan::test::epilogue_of(fmt::format("h = acc - mean(acc, over=(m,n), per=b, groups=32)\n"
                                               "r = rsqrt(variance(acc, over=(m,n), per=b, groups=32) + 1e-5)\n"
                                               "store silu({} + shift[n]) as y : bf16\n",
                                               product),
                                   conv);
  };
  epilogue = written("h * (r * scale[n])");
  const auto all = families::candidates({conv, epilogue, device}).value();
  keep(to_string(families::override_of(*all[7].plan)));
  epilogue = written("h * r * scale[n]");
  const Chosen c = chosen();
  EXPECT_EQ(c.origin, Origin::tuned);
  EXPECT_EQ(families::override_of(*c.plan), families::override_of(*all[7].plan));
  EXPECT_THAT(to_string(c), Says("12.5 us measured, … factors"));
  epilogue = written("h * scale[n] * x[m,n]");
  EXPECT_EQ(chosen().origin, Origin::cost_model);
}

TEST_F(Choose, AnIllegalPlanIsAWarningThatNamesTheRow) {
  keep("tile=256x256 order=cooperative mode=resident stages=12");
  const Chosen c = chosen();
  EXPECT_EQ(c.origin, Origin::cost_model);
  EXPECT_THAT(said, testing::AllOf(HasSubstr(file.string()), HasSubstr("is not used"), HasSubstr("tile=256x256"),
                                   HasSubstr("8,64,64,320->320")));
  chosen();
  EXPECT_EQ(said, "");  // once
}

TEST_F(Choose, SoIsOneThatCannotBeRead) {
  keep("tile=huge");
  EXPECT_EQ(chosen().origin, Origin::cost_model);
  EXPECT_THAT(said, HasSubstr("tile=huge"));
  keep("");
  EXPECT_EQ(chosen().origin, Origin::cost_model);
  EXPECT_THAT(said, HasSubstr("fixes nothing"));
}

// These two ended every process that looked the problem up
TEST_F(Choose, SoIsOneOfNumbersBeyondAnyKernel) {
  for (const std::string plan : {"cluster=65536x65536", "cluster=46341x46341"}) {
    keep(plan);
    EXPECT_EQ(chosen().origin, Origin::cost_model);
    EXPECT_THAT(said, testing::AllOf(HasSubstr("is not used"), HasSubstr(plan), HasSubstr("numbers of 1 to 16")));
  }
}

TEST_F(Choose, SoIsOneOfAnyLength) {
  keep("tile=" + std::string(1 << 20, '1'));
  EXPECT_EQ(chosen().origin, Origin::cost_model);
  EXPECT_THAT(said, testing::AllOf(HasSubstr("plans are not used"), HasSubstr("1048581 bytes")));
  EXPECT_LT(said.size(), 1000u);
}

TEST_F(Choose, SoIsADamagedFile) {
  std::ofstream(file) << std::string(4096, '?');
  EXPECT_EQ(chosen().origin, Origin::cost_model);
  EXPECT_THAT(said, testing::AllOf(HasSubstr(file.string()), HasSubstr("damaged")));
  EXPECT_EQ(support::read_file(file), std::string(4096, '?'));
}

TEST_F(Choose, ALockedFileIsWaitedForOnce) {
  const auto all = families::candidates({conv, epilogue, device}).value();
  keep(to_string(families::override_of(*all[7].plan)));
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE", nullptr, nullptr, nullptr),
            SQLITE_OK);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(chosen().origin, Origin::cost_model);
  EXPECT_THAT(said, testing::AllOf(HasSubstr(file.string()), HasSubstr("locked"), HasSubstr("not used")));
  for (int i = 0; i < 100; ++i) {  // each of them would wait
    EXPECT_EQ(chosen().origin, Origin::cost_model);
    EXPECT_EQ(said, "");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(100));  // on a machine that is busy, too
  sqlite3_close(other);
}

TEST_F(Choose, PlansThatOthersMayHaveWrittenAreNotUsed) {
  const auto all = families::candidates({conv, epilogue, device}).value();
  keep(to_string(families::override_of(*all[7].plan)));
  std::filesystem::permissions(file, std::filesystem::perms::all);
  EXPECT_EQ(chosen().origin, Origin::cost_model);
  EXPECT_THAT(said, testing::AllOf(HasSubstr(file.string()), HasSubstr("somebody else's"), HasSubstr("chmod go-w")));
}

}  // namespace
}  // namespace unisono::tuning
