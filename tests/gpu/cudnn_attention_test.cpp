// Attention of networks by cuDNN: agreement with float64, graphs, and what is said where it does not serve. On the
// emulated GPU by the cuDNN of tests/emulator/cudnn.cpp; on a GPU by the machine's, else skipped.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "gpu/device.hpp"
#include "gpu/network_problem.hpp"
#include "runtime/cuda/stream.hpp"
#include "runtime/cudnn/library.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

using testing::HasSubstr;
using testing::Not;

class AttentionByCudnn : public testing::Test {
 protected:
  void SetUp() override {
    const auto found = cudnn::library();
    if (!found) GTEST_SKIP() << found.refusal().text();
    ::setenv("UNISONO_ATTENTION", "cudnn", 1);
    std::printf("cuDNN %s in %s\n", (*found)->version_text().c_str(), (*found)->path.c_str());
  }
  void TearDown() override { ::unsetenv("UNISONO_ATTENTION"); }
  static NetworkOptions options(DType precision = DType::bf16) { return on_gpu(precision); }
  // How the launches that are attention work
  static std::vector<std::string> how(const Network& network, const NetworkOptions& options, const Shapes& shapes) {
    std::vector<std::string> all;
    for (const LaunchReport& l : explain_device(network, options, shapes).launches)
      if (l.how.find("attention") != l.how.npos) all.push_back(l.how);
    return all;
  }
  // Every attention is cuDNN's, its results agree with float64 and are those of any other replay
  static void agrees(const Network& network, const Shapes& shapes, std::size_t attentions,
                     DType precision = DType::bf16) {
    const NetworkOptions o = options(precision);
    EXPECT_THAT(how(network, o, shapes),
                testing::AllOf(testing::SizeIs(attentions), testing::Each(HasSubstr("attention by cuDNN"))));
    const NetworkExecutable executable = compile(network, o);
    const HostTensors inputs = random_inputs(shapes, 1), outputs = run(executable, inputs);
    expect_agreement(executable, o, inputs, outputs);
    run(executable, random_inputs(shapes, 2));
    for (const auto& [name, t] : run(executable, inputs)) EXPECT_EQ(t.data, outputs.at(name).data) << name;
  }
};

// As the fake library is told, while this lives
struct Fault {
  explicit Fault(const char* what) { ::setenv("UNISONO_FAKE_CUDNN", what, 1); }
  ~Fault() { ::setenv("UNISONO_FAKE_CUDNN", "none", 1); }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};
bool is_fake() { return std::getenv("UNISONO_FAKE_CUDNN") != nullptr; }

const Shapes packed_shapes{{"x", {2, 37, 16}}};
Network packed() { return packed_attention(37, 3, 24); }

// Ahead of the others: of a GPU there is one handle in a process
TEST_F(AttentionByCudnn, OneThatDoesNotStartIsTakenByNobodyUnlessAskedFor) {
  if (!is_fake()) GTEST_SKIP() << "only the fake cuDNN fails when it is told to";
  const Fault f("starts not");
  const Shapes shapes{{"x", {1, 512, 16}}};
  ::unsetenv("UNISONO_ATTENTION");
  const std::vector<std::string> own = how(packed_attention(512, 2, 64), options(), shapes);
  if (own.at(0).starts_with("attention by cuDNN")) GTEST_SKIP() << "another test has started it";
  EXPECT_THAT(own, testing::Each(testing::AllOf(HasSubstr("attention kernel"), HasSubstr("measured as faster, but"),
                                                HasSubstr("does not start"), HasSubstr("a part of it is missing"))));
  NetworkOptions asked = options();
  asked.attention = AttentionKernels::cudnn;
  EXPECT_THAT([&] { how(packed_attention(512, 2, 64), asked, shapes); },
              testing::ThrowsMessage<DeviceError>(HasSubstr("does not start")));
}

TEST_F(AttentionByCudnn, PackedColumnsAgree) { agrees(packed(), packed_shapes, 1); }
TEST_F(AttentionByCudnn, PackedColumnsInF16Agree) {
  agrees(packed_attention(69, 2, 64), {{"x", {1, 69, 16}}}, 1, DType::f16);
}
TEST_F(AttentionByCudnn, OneQueryAgrees) { agrees(packed_attention(1, 2, 40), {{"x", {3, 1, 16}}}, 1); }
TEST_F(AttentionByCudnn, SharedKeysAndWiderValuesAgree) {
  agrees(shared_keys(), {{"x", {2, 19, 24}}, {"text", {2, 33, 24}}}, 1);
}
TEST_F(AttentionByCudnn, BiasesAndGroupsOfHeadsAgree) {
  agrees(biased_attention(), {{"x", {2, 29, 24}}, {"text", {2, 45, 24}}}, 2);
}

TEST_F(AttentionByCudnn, GraphsOfEveryKindGiveTheSame) {
  const HostTensors inputs = random_inputs(packed_shapes, 3);
  HostTensors expected;
  for (const char* way : {"line", "capture", "nodes"}) {
    ::setenv("UNISONO_GRAPH", way, 1);
    const HostTensors outputs = run(compile(packed(), options()), inputs);
    ::unsetenv("UNISONO_GRAPH");
    if (expected.empty()) expected = outputs;
    for (const auto& [name, t] : outputs) EXPECT_EQ(t.data, expected.at(name).data) << way << ", " << name;
  }
}

TEST_F(AttentionByCudnn, ProfilesTimeIt) {
  const NetworkExecutable executable = compile(packed(), options());
  const HostTensors inputs = random_inputs(packed_shapes, 4);
  HostTensors outputs = outputs_for(executable, inputs), again = run(executable, inputs);
  std::vector<StepTime> steps;
  executable.run(views<ConstTensorView>(inputs), views<TensorView>(outputs), &steps);
  EXPECT_TRUE(std::ranges::any_of(steps, [](const StepTime& s) { return s.how.starts_with("attention by cuDNN"); }));
  for (const auto& [name, t] : outputs) EXPECT_EQ(t.data, again.at(name).data) << name;
}

TEST_F(AttentionByCudnn, IsTakenByItselfWhereItWasMeasuredAsFaster) {
  ::unsetenv("UNISONO_ATTENTION");
  const auto taken = [](std::int64_t rows, std::int64_t width) {
    return how(packed_attention(rows, 2, width), options(), {{"x", {1, rows, 16}}})
        .at(0)
        .starts_with("attention by cuDNN");
  };
  EXPECT_TRUE(taken(512, 64));
  EXPECT_TRUE(taken(640, 128));
  EXPECT_FALSE(taken(504, 64));
  EXPECT_FALSE(taken(512, 80));
}

TEST_F(AttentionByCudnn, IsNotTakenElsewhereUnlessAskedFor) {
  for (const char* other : {"", "auto", "own"}) {
    ::setenv("UNISONO_ATTENTION", other, 1);
    EXPECT_THAT(how(packed(), options(), packed_shapes), testing::Each(Not(HasSubstr("cuDNN")))) << other;
    NetworkOptions asked = options();
    asked.attention = AttentionKernels::cudnn;
    EXPECT_THAT(how(packed(), asked, packed_shapes), testing::Each(HasSubstr("attention by cuDNN"))) << other;
  }
  ::setenv("UNISONO_ATTENTION", "cudnn", 1);
  NetworkOptions own = options();
  own.attention = AttentionKernels::own;
  EXPECT_THAT(how(packed(), own, packed_shapes), testing::Each(Not(HasSubstr("cuDNN"))));
  ::setenv("UNISONO_ATTENTION", "flash", 1);
  EXPECT_THROW(explain_device(packed(), options(), packed_shapes), UserError);
}

TEST_F(AttentionByCudnn, WhatItDoesNotServeIsSaid) {
  const Shapes masked{{"x", {2, 21, 24}}, {"mask", {2, 1, 1, 21}}};
  const std::vector<std::string> own = how(masked_attention(), options(), masked);
  ASSERT_EQ(own.size(), 2u);
  EXPECT_THAT(own, testing::Each(HasSubstr("attention kernel, mma.sync")));
  EXPECT_THAT(own,
              testing::Contains(HasSubstr(": not by cuDNN: heads of 20 and 20 columns; cuDNN takes multiples of 8")));
  EXPECT_THAT(own, testing::Contains(HasSubstr(": not by cuDNN: rows without a key")));
  const NetworkExecutable executable = compile(masked_attention(), options());
  const HostTensors inputs = random_inputs(masked, 5);
  expect_agreement(executable, options(), inputs, run(executable, inputs));
}

TEST_F(AttentionByCudnn, RefusedPlansAreSaid) {
  if (!is_fake()) GTEST_SKIP() << "only the fake cuDNN fails when it is told to";
  for (const auto& [fault, text] :
       {std::pair{"refuses", "CUDNN_STATUS_NOT_SUPPORTED: the fake cuDNN refuses all plans"},
        {"workspace", "bytes of workspace; expected at most 268435456"}}) {
    const Fault f(fault);
    EXPECT_THAT(how(packed(), options(), packed_shapes), testing::Each(HasSubstr(text)));
    EXPECT_THAT(how(packed(), options(), packed_shapes), testing::Each(HasSubstr("attention kernel")));
  }
}

TEST_F(AttentionByCudnn, FailedExecutionsAreErrors) {
  if (!is_fake()) GTEST_SKIP() << "only the fake cuDNN fails when it is told to";
  const Fault f("fails");
  EXPECT_THAT(
      [] { run(compile(packed(), options()), random_inputs(packed_shapes, 6)); },
      testing::ThrowsMessage<DeviceError>(HasSubstr("running attention by cuDNN: CUDNN_STATUS_EXECUTION_FAILED")));
}

TEST(NetworkSmall, AttentionByACudnnThatIsNotThereIsRefused) {
  const char* given = std::getenv("UNISONO_CUDNN");
  const std::string before = given == nullptr ? "" : given;
  ::setenv("UNISONO_CUDNN", "/nowhere/libcudnn.so.9", 1);
  ::setenv("UNISONO_ATTENTION", "cudnn", 1);
  if (!cudnn::library()) {  // else another test has loaded it
    EXPECT_THAT([] { explain_device(packed(), on_gpu(), packed_shapes); },
                testing::ThrowsMessage<Unsupported>(testing::AllOf(HasSubstr("attention by cuDNN is asked for"),
                                                                   HasSubstr("/nowhere/libcudnn.so.9"),
                                                                   HasSubstr("install cuDNN 9.8 or later"))));
    ::unsetenv("UNISONO_ATTENTION");  // ours, with the reason
    const Network long_rows = packed_attention(512, 2, 64);
    std::string said;
    for (const LaunchReport& l : explain_device(long_rows, on_gpu(), {{"x", {1, 512, 16}}}).launches) said += l.how;
    EXPECT_THAT(said, testing::AllOf(HasSubstr("attention kernel"), HasSubstr("measured as faster, but"),
                                     HasSubstr("/nowhere/libcudnn.so.9")));
  }
  EXPECT_NO_THROW(explain_device(heatmap_unet(small_unet), on_gpu(), {{"image", {2, 3, 16, 24}}}));  // it has none
  ::unsetenv("UNISONO_ATTENTION");
  before.empty() ? ::unsetenv("UNISONO_CUDNN") : ::setenv("UNISONO_CUDNN", before.c_str(), 1);
}

}  // namespace
}  // namespace unisono::gpu
