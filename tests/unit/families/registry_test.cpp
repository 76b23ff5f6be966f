// Which family serves a workload, and how plans and callers name families.

#include "families/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/sm90/fields.hpp"
#include "families/sm90_conv/family.hpp"
#include "families/sm90_depthwise/family.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/plan/problems.hpp"

namespace unisono::families {
namespace {

using testing::HasSubstr;

struct OnePlan final : Plan {};

/// Serves every contraction by one plan, which has no field.
class AnyContraction : public Family {
 public:
  std::string_view name() const override { return "any_contraction"; }
  std::optional<Refusal> can_implement(const Workload&) const override { return std::nullopt; }
  std::vector<Candidate> candidates(const Workload&, const PlanOverride& fixed) const override {
    if (!fixed.fields.empty()) return {};
    auto plan = std::make_shared<OnePlan>();
    plan->family = this;
    return {{plan}};
  }
  double cost(const Plan&, const Workload&) const override { return 1; }
  codegen::Kernel generate(const Plan&, const plan::Epilogue&, const codegen::Options&) const override { return {}; }
  plan::Expected<std::size_t> parameter_bytes(const Plan&, const codegen::Kernel&) const override { return 8; }
  ParameterBytes constants(const Plan&, const Launched&) const override { return {}; }
  void fill(Parameter&, const Plan&, const Launched&, const Tensors&) const override {}
  void place_workspace(ParameterBytes&, const Plan&, const plan::Epilogue&, std::uint64_t) const override {}
  std::string title(const Plan&) const override { return "any"; }
  std::string describe(const Plan&) const override { return "any"; }
  std::string reasons(const Plan&, const Workload&) const override { return ""; }
  PlanOverride override_of(const Plan&) const override { return {}; }
  std::string kind(const Plan&) const override { return ""; }
};

/// Serves them whatever the override fixes.
class AnyOverride final : public AnyContraction {
 public:
  explicit AnyOverride(bool last_resort) : last_resort_(last_resort) {}
  bool is_last_resort(const plan::Device&) const override { return last_resort_; }
  std::span<const plan::PlanField> fields() const override { return sm90::plan_fields(); }
  std::vector<Candidate> candidates(const Workload& workload, const PlanOverride&) const override {
    return AnyContraction::candidates(workload, {});
  }

 private:
  bool last_resort_;
};

/// Has a field of its own, a word of which was another before, and one that others have too.
class OwnFields final : public AnyContraction {
 public:
  std::span<const plan::PlanField> fields() const override { return list; }
  std::vector<Candidate> candidates(const Workload& workload, const PlanOverride&) const override {
    return AnyContraction::candidates(workload, {});
  }

 private:
  const std::vector<plan::PlanField> list{
      {.name = "lanes", .form = "few or all", .words = {"few", "all"}, .former = {{"some", "few"}}},
      {.name = "mode", .form = "alone", .words = {"alone"}}};
};

class Registry : public testing::Test {
 protected:
  Registry() { depthwise.groups = 256; }
  std::string served_by(const Conv2d& conv, const std::string& fixed = "") const {
    const plan::Epilogue epilogue = plan::test::epilogue_of(plan::test::bias_silu, conv);
    return std::string(choose({conv, epilogue, device}, parse_plan(fixed)).value()->family->name());
  }

  plan::Device device;
  Conv2d dense = plan::test::conv_of(8, 64, 64, 256, 256, 3), depthwise = dense;
};

TEST_F(Registry, AsksTheBestFirst) {
  EXPECT_EQ(served_by(dense), "sm90_conv");
  EXPECT_EQ(served_by(depthwise), "sm90_depthwise");
}

TEST_F(Registry, AsksOneAloneThatIsNamed) {
  EXPECT_EQ(served_by(depthwise, "family=sm90_conv"), "sm90_conv");
  EXPECT_EQ(served_by(depthwise, "family=sm90_depthwise thread=16x2x8"), "sm90_depthwise");
  try {
    served_by(dense, "family=sm90_depthwise");
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("contraction: no depthwise convolution"));
  }
}

TEST_F(Registry, KnowsNoOther) {
  try {
    served_by(dense, "family=sm90_cnv");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("family=sm90_cnv"),
                                             HasSubstr("sm90_depthwise, sm90_conv, cutlass_evt, mma, plain"),
                                             HasSubstr("did you mean")));
  }
}

// Kernels of one architecture are of no use for another, whatever else stands against a workload
TEST_F(Registry, RefusesOtherArchitectures) {
  device.major = 10;
  depthwise.dtype_w = DType::f64;
  const plan::Epilogue epilogue = plan::test::epilogue_of(plan::test::bias_silu, depthwise);
  const auto only_reason = [&](const Family& family) {
    const auto refusal = family.can_implement({depthwise, epilogue, device});
    return refusal && refusal->scope == Refusal::Scope::device && refusal->reasons.size() == 1 ? refusal->reasons[0]
                                                                                               : "";
  };
  EXPECT_THAT(only_reason(sm90_conv::family()), Says("compute capability 10.0; the convolution kernels … 9.0"));
  device.major = 7, device.minor = 5;
  EXPECT_THAT(only_reason(sm90_depthwise::family()),
              Says("compute capability 7.5; the depthwise kernels … 8.0 and later"));
}

// Depthwise kernels have no instruction of Hopper's
TEST_F(Registry, DepthwiseKernelsServeWhatHasMmaSync) {
  for (const auto& [major, minor] : {std::pair(8, 0), {8, 6}, {8, 9}, {9, 0}, {10, 0}, {12, 0}}) {
    device.major = major, device.minor = minor;
    EXPECT_EQ(served_by(depthwise), "sm90_depthwise") << major << "." << minor;
  }
  device.major = 7, device.minor = 5;
  EXPECT_EQ(served_by(depthwise), "plain");
}

// What a network says of a convolution of groups that no kernel made for them serves
TEST_F(Registry, SaysWhyThoseAheadDoNotServe) {
  const auto reasons = [&](const Conv2d& conv) {
    const plan::Epilogue epilogue = plan::test::epilogue_of(plan::test::bias_silu, conv);
    const plan::ConvTask task = conv;
    const Workload workload{task, epilogue, device};
    const PlanPointer best = choose(workload).value();
    EXPECT_EQ(best->made_for_groups, best->family->name() == "sm90_depthwise");
    const auto refusal = refused_ahead_of(*best->family, workload);
    return refusal ? refusal->reasons : std::vector<std::string>{};
  };
  EXPECT_THAT(reasons(dense), testing::ElementsAre("contraction: no depthwise convolution"));
  EXPECT_THAT(reasons(depthwise), testing::IsEmpty());
  Conv2d odd = plan::test::conv_of(1, 32, 32, 37, 37, 3);
  odd.groups = 37;
  EXPECT_THAT(reasons(odd), testing::ElementsAre(Says("depthwise: 37 channels, … pairs")));
}

TEST_F(Registry, PlansNameTheirFamily) {
  const plan::Epilogue epilogue = plan::test::epilogue_of(plan::test::block, dense);
  for (const Conv2d& conv : {dense, depthwise}) {
    const plan::Epilogue own = conv.groups == 1 ? epilogue : plan::test::epilogue_of(plan::test::bias_silu, conv);
    const PlanPointer best = choose({conv, own, device}).value();
    const std::string text = to_string(override_of(*best));
    EXPECT_THAT(text, testing::StartsWith("family=" + std::string(best->family->name()) + " tile="));
    // Plans that were kept before there were families name none
    PlanOverride before = parse_plan(text);
    before.fields.erase("family");
    for (const PlanOverride& fixed : {parse_plan(text), before}) {
      const PlanPointer again = choose({conv, own, device}, fixed).value();
      EXPECT_EQ(again->family, best->family);
      EXPECT_EQ(to_string(override_of(*again)), text);
    }
  }
}

TEST_F(Registry, TakesFurtherFamilies) {
  const AnyContraction any;
  const auto other = [&] { return served_by(dense, "family=any_contraction"); };
  EXPECT_THROW(other(), UserError);
  {
    const Registration registration(any);
    EXPECT_EQ(registry().back(), &any);
    EXPECT_EQ(other(), "any_contraction");
    EXPECT_EQ(served_by(dense), "sm90_conv");  // asked before it
    device.major = 7;
    EXPECT_EQ(served_by(dense), "any_contraction");
    device.major = 9;
    EXPECT_THROW(served_by(dense, "family=any_contraction tile=128x128"), Unsupported);
  }
  EXPECT_THROW(other(), UserError);
}

TEST_F(Registry, AFamilyHasFieldsOfItsOwn) {
  EXPECT_THROW(parse_plan("lanes=few"), UserError);
  const OwnFields own;
  const Registration registration(own);
  EXPECT_EQ(to_string(parse_plan("lanes=some mode=alone tile=64x64")), "tile=64x64 mode=alone lanes=few");
  EXPECT_EQ(parse_plan("mode=resident").fields.at("mode"), "resident");
  EXPECT_THROW(parse_plan("lanes=none"), UserError);
  EXPECT_THROW(parse_plan("mode=lanes"), UserError);
  EXPECT_EQ(served_by(dense, "lanes=all"), "any_contraction");
  EXPECT_EQ(served_by(dense, "mode=alone"), "any_contraction");
  EXPECT_EQ(served_by(dense, "mode=none"), "sm90_conv");
  EXPECT_THROW(served_by(dense, "lanes=all tile=64x64"), Unsupported);
}

TEST_F(Registry, ALastResortHasToBeNamedWhereAFieldIsFixed) {
  device.major = 7;
  for (const bool last_resort : {false, true}) {
    const AnyOverride any(last_resort);
    const Registration registration(any);
    EXPECT_EQ(served_by(dense), "any_contraction");
    EXPECT_EQ(served_by(dense, "family=any_contraction tile=64x64"), "any_contraction");
    if (last_resort)
      EXPECT_THROW(served_by(dense, "tile=64x64"), Unsupported);
    else
      EXPECT_EQ(served_by(dense, "tile=64x64"), "any_contraction");
  }
  device = {};
  plan::Device ampere;
  ampere.major = 8;
  for (const Family* family : registry()) {
    EXPECT_EQ(family->is_last_resort(ampere), family->name() == "plain");
    EXPECT_EQ(family->is_last_resort(device), family->name() == "plain" || family->name() == "mma");
  }
}

}  // namespace
}  // namespace unisono::families
