// Networks with host steps: against float64, twice the same bits, and by every way to make a graph.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "host_steps/networks.hpp"

namespace unisono::gpu {
namespace {

class HostStepCases : public testing::TestWithParam<HostCase> {
  const OperatorsOnHost on_host_;
};
class HostStepResults : public testing::Test {
  const OperatorsOnHost on_host_;
};

TEST_P(HostStepCases, AgreeWithTheReferenceTwice) {
  const HostCase& c = GetParam();
  for (const DType precision : {DType::bf16, DType::f16}) {
    const NetworkExecutable executable = compile(c.make(), on_gpu(precision));
    EXPECT_EQ(executable.host_steps(c.shapes).size(), c.unserved);
    const HostTensors inputs = random_inputs(c.shapes, 3), outputs = run(executable, inputs);
    expect_agreement(executable, on_gpu(precision), inputs, outputs);
    for (const auto& [name, t] : run(executable, inputs)) EXPECT_EQ(t.data, outputs.at(name).data) << name;
  }
}

// A profile has a line for each launch and each step, as the report has
TEST_P(HostStepCases, AreProfiledAndReportedInOrder) {
  const HostCase& c = GetParam();
  const NetworkExecutable executable = compile(c.make(), on_gpu());
  const HostTensors inputs = random_inputs(c.shapes, 4);
  HostTensors outputs = outputs_for(executable, inputs);
  std::vector<StepTime> profile;
  executable.run(views<ConstTensorView>(inputs), views<TensorView>(outputs), &profile);
  const DeviceReport report = explain_device(c.make(), on_gpu(), c.shapes);
  EXPECT_EQ(std::ranges::count(report.launches, true, &LaunchReport::on_host), static_cast<std::ptrdiff_t>(c.steps))
      << to_string(report);
  ASSERT_EQ(profile.size(), report.launches.size());
  for (std::size_t i = 0; i < profile.size(); ++i) {
    EXPECT_EQ(profile[i].name, report.launches[i].name);
    EXPECT_EQ(profile[i].how.starts_with("host step: "), report.launches[i].on_host) << profile[i].how;
    EXPECT_GT(profile[i].milliseconds, 0) << profile[i].name;
  }
  for (const auto& [name, t] : run(executable, inputs)) EXPECT_EQ(t.data, outputs.at(name).data) << name;
}

INSTANTIATE_TEST_SUITE_P(All, HostStepCases, testing::ValuesIn(host_cases()));

struct GraphWay {
  explicit GraphWay(const char* way) { ::setenv("UNISONO_GRAPH", way, 1); }
  ~GraphWay() { ::unsetenv("UNISONO_GRAPH"); }
  GraphWay(const GraphWay&) = delete;
  GraphWay& operator=(const GraphWay&) = delete;
};

TEST_F(HostStepResults, GraphsOfEveryKindGiveTheSame) {
  const HostCase& c = host_cases()[1];
  const HostTensors inputs = random_inputs(c.shapes, 5);
  std::vector<HostTensors> results;
  for (const char* way : {"line", "capture", "nodes"}) {
    const GraphWay set(way);
    const NetworkExecutable executable = compile(c.make(), on_gpu());
    for (int i = 0; i < 2; ++i) results.push_back(run(executable, inputs));
  }
  for (const HostTensors& result : results)
    for (const auto& [name, t] : result) EXPECT_EQ(t.data, results[0].at(name).data) << name;
}

// Another set of shapes has steps of its own
TEST_F(HostStepResults, ByInputShapes) {
  const HostCase& c = host_cases()[1];
  const NetworkExecutable executable = compile(c.make(), on_gpu());
  for (const std::int64_t batch : {1, 3, 1}) {
    const HostTensors inputs = random_inputs({{"x", {batch, 16, 4 + batch, 8}}}, 6);
    expect_agreement(executable, on_gpu(), inputs, run(executable, inputs));
  }
}

// With every operator by itself: what is pointwise is a kernel still
TEST_F(HostStepResults, WithoutFusion) {
  NetworkOptions options = on_gpu();
  options.fuse = false;
  const NetworkExecutable executable = compile(reversed_between_convolutions(), options);
  const HostTensors inputs = random_inputs({{"x", {2, 16, 6, 10}}}, 7);
  expect_agreement(executable, options, inputs, run(executable, inputs));
}

TEST_F(HostStepResults, OfTensorsWithoutElements) {
  NetworkBuilder net("empty");
  net.output(relu(reversed(relu(net.input("x", {0, 8})), 1, "columns")), "y");
  const NetworkExecutable executable = compile(net.build(), on_gpu());
  const HostTensors inputs{{"x", {{0, 8}, {}}}};
  EXPECT_TRUE(run(executable, inputs).at("y").data.empty());
  EXPECT_TRUE(executable.host_steps({{"x", {0, 8}}}).empty());
}

}  // namespace
}  // namespace unisono::gpu
