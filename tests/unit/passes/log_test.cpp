#include "passes/log.hpp"

#include <gtest/gtest.h>

#include "rewriting.hpp"
#include "support/golden.hpp"
#include "support/says.hpp"
#include "support/sources.hpp"

namespace unisono::passes {
namespace {

// The log of tests/golden/passes/<name>.epi is <name>.log. After a change that is meant, write the logs anew with
// UNISONO_WRITE_GOLDEN=1 test_passes.
class GoldenLog : public testing::TestWithParam<const char*> {};

TEST_P(GoldenLog, IsAsRecorded) {
  const std::string stem = test::source_path("tests/golden/passes/") + GetParam();
  test::expect_golden(stem + ".log", to_string(record_pipeline(graph_of(test::text_of(stem + ".epi"))).passes));
}

INSTANTIATE_TEST_SUITE_P(Passes, GoldenLog,
                         testing::Values("group_norm_mish", "cross_entropy", "softmax_by_hand", "casts"));

TEST(Log, SaysWhatEachPassDid) {
  const auto log = record_pipeline(graph_of("acc * sigmoid(acc)")).passes;
  ASSERT_EQ(log.size(), pipeline().size());
  for (const LogEntry& e : log) EXPECT_EQ(e.changed, e.pass == "fuse_operators") << e.pass;
  const std::string text = to_string(log);
  EXPECT_THAT(text, Says("-- prune: … (exact)\n(unchanged)\n"));
  EXPECT_THAT(text, Says("-- fuse_operators: … (may reassociate)\n"));
}

}  // namespace
}  // namespace unisono::passes
