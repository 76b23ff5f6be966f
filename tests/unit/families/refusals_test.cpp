// Refusals of candidates in a report: one line a rule, of the plan that is closest to it.

#include <gmock/gmock.h>

#include "families/registry.hpp"
#include "families/sm90/problem.hpp"

namespace unisono::families {
namespace {

using sm90::unfit;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

std::vector<Candidate> refused(std::vector<Refusal> refusals) {
  std::vector<Candidate> all;
  for (Refusal& r : refusals) all.push_back({nullptr, std::move(r)});
  return all;
}

Refusal registers(int accumulators, int others) {
  return unfit("registers: {} accumulators and {} others; {} there are", accumulators, others, 112)
      .exceeding(accumulators + others, 112);
}

TEST(RefusalsByReason, TheExampleIsTheClosestToLegal) {
  EXPECT_THAT(refusals_by_reason(refused({registers(64, 64), registers(10, 200), registers(100, 20)})),
              ElementsAre("registers: 100 accumulators and 20 others; 112 there are and 2 like it"));
}

TEST(RefusalsByReason, OneRuleWhateverItsValues) {
  EXPECT_THAT(refusals_by_reason(refused({unfit("mode: {}; only `rows` serves", "resident"),
                                          unfit("mode: {}; only `rows` serves", "streamed")})),
              ElementsAre("mode: resident; only `rows` serves and 1 like it"));
}

TEST(RefusalsByReason, RulesThatDifferInNumbersAlone) {
  EXPECT_THAT(refusals_by_reason(refused({unfit("tile: 32 deep"), unfit("tile: 64 deep")})),
              UnorderedElementsAre("tile: 32 deep", "tile: 64 deep"));
}

TEST(RefusalsByReason, OfNoPlanByTheirText) {
  EXPECT_THAT(
      refusals_by_reason(refused({plan::because("device: 1"), plan::because("device: 2"), plan::because("device: 1")})),
      ElementsAre("device: 1 and 1 like it", "device: 2"));
}

TEST(RefusalsByReason, TheMostFrequentFirst) {
  EXPECT_THAT(refusals_by_reason(refused({unfit("swap"), unfit("unit: {}", 1), unfit("unit: {}", 2)}), 1),
              ElementsAre("unit: 1 and 1 like it", "and 1 other reasons"));
}

}  // namespace
}  // namespace unisono::families
