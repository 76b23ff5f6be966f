// Who gets a kernel of CUTLASS's, by which plan, and what its launch is told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/cutlass_evt/family.hpp"
#include "unisono/error.hpp"
#include "unisono/params/cutlass_evt_params.cuh"
#include "unit/families/cutlass_evt/problems.hpp"

namespace unisono::families::cutlass_evt {
namespace {

using testing::HasSubstr;

constexpr const char* biased = "store relu(acc + bias[n]) as y : bf16";

class EvtFamily : public testing::Test {
 protected:
  Workload workload() const { return {task, epilogue, device}; }
  PlanPointer chosen(const std::string& fixed) const { return choose(workload(), parse_plan(fixed)).value(); }

  plan::ConvTask task = plan::as_convolution(test::product(512, 256, 128, 3));
  plan::Epilogue epilogue = test::epilogue_of(biased, test::product(512, 256, 128, 3));
  plan::Device device;
};

TEST_F(EvtFamily, IsChosenOnlyByName) {
  EXPECT_EQ(chosen("")->family->name(), "sm90_conv");
  EXPECT_EQ(chosen("tile=128x128")->family->name(), "sm90_conv");
  EXPECT_EQ(chosen("family=cutlass_evt")->family, &family());
  EXPECT_NE(registry().back(), &family()) << "the last resort is the last";
  for (const Candidate& c : candidates(workload()).value()) {
    if (c.is_legal()) {
      EXPECT_NE(c.plan->family, &family());
    }
  }
}

// Where no other family serves a problem, this one is not taken either
TEST_F(EvtFamily, DoesNotStepIn) {
  device.major = 7, device.minor = 0;
  EXPECT_FALSE(choose(workload()));
}

TEST_F(EvtFamily, TakesTheFieldsThatAreFixed) {
  const PlanPointer plan =
      chosen("family=cutlass_evt tile=64x128 order=pingpong cluster=2x1 raster=rows swizzle_size=4");
  EXPECT_THAT(title(*plan), HasSubstr("64x128x64 pingpong cluster 2x1"));
  const std::string source = family().generate(*plan, epilogue, {}).source;
  EXPECT_THAT(source, HasSubstr("using TileShape = Shape<_64, _128, _64>;"));
  EXPECT_THAT(source, HasSubstr("using ClusterShape = Shape<_2, _1, _1>;"));
  EXPECT_THAT(source, HasSubstr("KernelTmaWarpSpecializedPingpong"));
  EXPECT_THAT(source, HasSubstr("Raster::AlongM"));
  EXPECT_THAT(source, HasSubstr("max_swizzle_size = 4"));
}

TEST_F(EvtFamily, FindsEachPlanByItsOwnText) {
  const auto all = candidates(workload(), parse_plan("family=cutlass_evt")).value();
  ASSERT_GT(all.size(), 4u);
  for (const Candidate& c : all) {
    PlanOverride fixed = override_of(*c.plan);
    const auto again = family().candidates(workload(), fixed);
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(override_of(*again[0].plan), fixed);
  }
}

TEST_F(EvtFamily, CompilesForTheDeviceOrForSm80) {
  const auto arch = [&](int major, int minor, const std::string& fields) {
    device.major = major, device.minor = minor;
    const PlanPointer plan = chosen("family=cutlass_evt " + fields);
    return family().generate(*plan, epilogue, {}).library->arch;
  };
  EXPECT_EQ(arch(9, 0, ""), "sm_90a");
  EXPECT_EQ(arch(9, 0, "arch=sm80"), "compute_80") << "its machine code would not load on another architecture";
  EXPECT_EQ(arch(8, 0, ""), "compute_80");
  EXPECT_EQ(arch(8, 9, ""), "compute_80");
  EXPECT_EQ(arch(12, 0, ""), "sm_120");
  EXPECT_EQ(arch(12, 0, "arch=sm80"), "compute_80");
  EXPECT_EQ(arch(10, 0, ""), "sm_100a");
}

TEST_F(EvtFamily, SaysWhatHasNeverRun) {
  device.major = 12;
  EXPECT_THAT(explain(workload(), parse_plan("family=cutlass_evt")), HasSubstr("compiled, never run"));
  device.major = 9;
  EXPECT_THAT(explain(workload(), parse_plan("family=cutlass_evt")), HasSubstr("run and checked on sm_90"));
}

TEST_F(EvtFamily, FindsEachPlanOfSm80ByItsOwnText) {
  const auto all = candidates(workload(), parse_plan("family=cutlass_evt arch=sm80")).value();
  ASSERT_EQ(all.size(), 6u);
  for (const Candidate& c : all) {
    const PlanOverride fixed = override_of(*c.plan);
    EXPECT_FALSE(fixed.fields.contains("order"));
    const auto again = family().candidates(workload(), fixed);
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(override_of(*again[0].plan), fixed);
  }
}

TEST_F(EvtFamily, TellsALaunchItsProblem) {
  const PlanPointer plan = chosen("family=cutlass_evt");
  const codegen::Kernel kernel = family().generate(*plan, epilogue, {});
  ASSERT_EQ(kernel.fields.size(), 1u);
  EXPECT_EQ(family().parameter_bytes(*plan, kernel).value(), sizeof(CutlassEvtParams) + 8);
  const Launched what{task, epilogue, kernel};
  Parameter parameter{.bytes = family().constants(*plan, what), .maps = {}, .sites = {}};
  int a = 0, b = 0, d = 0;
  Tensors tensors{.activation = {&a, 0}, .filter = {&b, 1}, .step_b = 40000, .output = {&d, 2}};
  tensors.fields.add(7, 3);
  family().fill(parameter, *plan, what, tensors);
  const CutlassEvtParams& p = parameter.bytes.at<CutlassEvtParams>();
  EXPECT_EQ(p.m, 512);
  EXPECT_EQ(p.n, 256);
  EXPECT_EQ(p.k, 128);
  EXPECT_EQ(p.batch, 3);
  EXPECT_EQ(p.pitch_a, 128);
  EXPECT_EQ(p.pitch_b, 256);
  EXPECT_EQ(p.pitch_d, 256);
  EXPECT_EQ(p.step_a, 512 * 128);
  EXPECT_EQ(p.step_b, 40000);
  EXPECT_EQ(p.a, &a);
  EXPECT_EQ(p.b, &b);
  EXPECT_EQ(p.d, &d);
  EXPECT_EQ(parameter.bytes.at<std::uint64_t>(sizeof(CutlassEvtParams)), 7u);
  EXPECT_EQ(parameter.sites.size(), 4u) << "each can be bound anew";
}

TEST_F(EvtFamily, TellsALaunchItsConvolution) {
  Conv2d conv = test::convolution();
  conv.stride = 2, conv.pad = {1, 2, 0, 3};
  task = plan::as_convolution(conv), epilogue = test::epilogue_of(biased, conv);
  const PlanPointer plan = chosen("family=cutlass_evt");
  EXPECT_THAT(title(*plan), HasSubstr("sm90a conv"));
  const codegen::Kernel kernel = family().generate(*plan, epilogue, {});
  EXPECT_EQ(family().parameter_bytes(*plan, kernel).value(), sizeof(CutlassEvtParams) + sizeof(CutlassEvtWindow) + 8);
  Parameter parameter{.bytes = family().constants(*plan, {task, epilogue, kernel}), .maps = {}, .sites = {}};
  int x = 0;
  Tensors tensors{.activation = {&x, 0}, .activation_pitch = 48};
  tensors.fields.add(7, 3);
  family().fill(parameter, *plan, {task, epilogue, kernel}, tensors);
  const CutlassEvtParams& p = parameter.bytes.at<CutlassEvtParams>();
  const CutlassEvtWindow& o = parameter.bytes.at<CutlassEvtWindow>(sizeof(CutlassEvtParams));
  EXPECT_EQ(p.m, 2 * o.p * o.q);
  EXPECT_EQ(p.n, 72);
  EXPECT_EQ(p.k, 40);
  EXPECT_EQ(p.batch, 1);
  EXPECT_EQ(p.pitch_a, 48);
  EXPECT_EQ(o.images, 2);
  EXPECT_EQ(o.h, 17);
  EXPECT_EQ(o.p, (17 + 1 + conv.pad.bottom - 3) / 2 + 1);
  EXPECT_EQ(o.stride_w, 2);
  EXPECT_EQ(o.pad_left, conv.pad.left);
  EXPECT_EQ(parameter.bytes.at<std::uint64_t>(sizeof(CutlassEvtParams) + sizeof(CutlassEvtWindow)), 7u);
}

TEST_F(EvtFamily, TellsALaunchItsGradient) {
  const FilterGradient2d g = test::gradient();
  task = plan::as_convolution(g), epilogue = test::epilogue_of(biased, g);
  const PlanPointer plan = chosen("family=cutlass_evt");
  EXPECT_THAT(title(*plan), HasSubstr("sm90a wgrad"));
  const codegen::Kernel kernel = family().generate(*plan, epilogue, {});
  Parameter parameter{.bytes = family().constants(*plan, {task, epilogue, kernel}), .maps = {}, .sites = {}};
  Tensors tensors;
  tensors.fields.add(7, 3);
  family().fill(parameter, *plan, {task, epilogue, kernel}, tensors);
  const CutlassEvtParams& p = parameter.bytes.at<CutlassEvtParams>();
  const CutlassEvtWindow& o = parameter.bytes.at<CutlassEvtWindow>(sizeof(CutlassEvtParams));
  EXPECT_EQ(p.m, 72);
  EXPECT_EQ(p.n, 3 * 2 * 64);
  EXPECT_EQ(p.k, 64);
  EXPECT_EQ(p.batch, 1);
  EXPECT_EQ(p.pitch_d, p.n);
  EXPECT_EQ(o.images, 2);
  EXPECT_EQ(o.p, 17);
  EXPECT_EQ(o.q, (13 + 2 - 2) / 2 + 1);
  EXPECT_EQ(o.stride_w, 2);
  tensors.output_pitch = 80;
  EXPECT_THROW(family().fill(parameter, *plan, {task, epilogue, kernel}, tensors), Unsupported);
}

TEST_F(EvtFamily, TellsALaunchItsGroups) {
  const Gemm g = test::grouped();
  task = plan::as_convolution(g), epilogue = test::epilogue_of(biased, g);
  const PlanPointer plan = chosen("family=cutlass_evt");
  EXPECT_THAT(title(*plan), HasSubstr("sm90a grouped"));
  const codegen::Kernel kernel = family().generate(*plan, epilogue, {});
  EXPECT_EQ(family().parameter_bytes(*plan, kernel).value(), sizeof(CutlassEvtParams) + sizeof(CutlassEvtGroups) + 8);
  Parameter parameter{.bytes = family().constants(*plan, {task, epilogue, kernel}), .maps = {}, .sites = {}};
  Tensors tensors{.activation_pitch = 136};
  tensors.fields.add(7, 3);
  family().fill(parameter, *plan, {task, epilogue, kernel}, tensors);
  const CutlassEvtParams& p = parameter.bytes.at<CutlassEvtParams>();
  const CutlassEvtGroups& groups = parameter.bytes.at<CutlassEvtGroups>(sizeof(CutlassEvtParams));
  EXPECT_EQ(p.m, 428);
  EXPECT_EQ(p.batch, 1);
  EXPECT_EQ(p.pitch_a, 136);
  EXPECT_EQ(p.step_b, 256 * 128);
  EXPECT_EQ(groups.count, 3);
  EXPECT_EQ(groups.rows[0], 100);
  EXPECT_EQ(groups.rows[2], 300);
  EXPECT_EQ(parameter.bytes.at<std::uint64_t>(sizeof(CutlassEvtParams) + sizeof(CutlassEvtGroups)), 7u);
  EXPECT_GE(plan->workspace_bytes, 10u * kGroupTableBytes + 132u * 4 * 128);
}

TEST_F(EvtFamily, NeedsAWorkspaceForReductionsAlone) {
  EXPECT_EQ(chosen("family=cutlass_evt")->workspace_bytes, 0u);
  epilogue = test::epilogue_of("store acc as y : bf16\nstore sum(acc, over=m, per=b) as s : f32",
                               test::product(512, 256, 128, 3));
  EXPECT_GE(chosen("family=cutlass_evt tile=128x128")->workspace_bytes, std::size_t{4} * 4 * 256 * 3);
}

TEST_F(EvtFamily, SaysWhichBuiltinFusionItIs) {
  const std::string text = explain(workload(), parse_plan("family=cutlass_evt"));
  EXPECT_THAT(text, HasSubstr("asked for by name"));
  EXPECT_THAT(text, HasSubstr("LinCombPerColBiasEltAct<thread::ReLu>"));
}

}  // namespace
}  // namespace unisono::families::cutlass_evt
