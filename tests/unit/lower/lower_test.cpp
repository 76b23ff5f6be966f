// From a contraction and its epilogue to a kernel: one way, whoever asks.

#include "lower/lower.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bench/kernels.hpp"
#include "families/interface/family.hpp"
#include "jit/key.hpp"
#include "network/cuda/run/plan.hpp"
#include "support/says.hpp"
#include "tuner/problem.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"
#include "unisono/text.hpp"

namespace unisono::lower {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

constexpr const char* block =
    "h = acc + bias[n]\nstore silu(group_norm(h, groups=8, scale=gamma[n], shift=beta[n])) as y : bf16\n";

Conv2d conv() {
  return {.n = 2,
          .h = 32,
          .w = 32,
          .c = 64,
          .k = 64,
          .r = 3,
          .s = 3,
          .pad = {1, 1, 1, 1},
          .dtype_x = DType::bf16,
          .dtype_w = DType::bf16};
}

class Lower : public testing::Test {
 protected:
  Lower() { ::setenv("UNISONO_TUNING", "off", 1); }
  ~Lower() override { ::unsetenv("UNISONO_TUNING"); }
  plan::Device device;
};

// A compilation of a minute is done once, ahead: other kernels' headers may change
TEST_F(Lower, CutlassKernelsDependOnTheHeadersThatTheyName) {
  const auto names_of = [&](const char* text, const std::string& plan) {
    CompileOptions options;
    options.plan = plan;
    const Lowered lowered = lower(conv(), parse(text), options, device).value();
    std::vector<std::string> names;
    for (const jit::Header& h : lowered.request().headers) names.emplace_back(h.name);
    return names;
  };
  const std::vector<std::string> shared{"unisono/epilogue/math.cuh", "unisono/params/cutlass_evt_params.cuh",
                                        "unisono/params/words.cuh"};
  for (const char* arch : {"sm90a", "sm80"}) {
    const auto names = names_of("store silu(acc) as y : bf16", fmt::format("family=cutlass_evt arch={}", arch));
    for (const std::string& name : shared) EXPECT_THAT(names, testing::Contains(name)) << arch;
    EXPECT_EQ(std::ranges::count(names, "unisono/cutlass/sm80_conv.cuh"), std::string(arch) == "sm80" ? 1 : 0);
    EXPECT_THAT(names, testing::Each(testing::Not(AnyOf(HasSubstr("sm90/"), HasSubstr("plain/"), HasSubstr("tensor/"),
                                                        HasSubstr("load/"), HasSubstr("tile/"),
                                                        HasSubstr("params/params.cuh")))));
  }
  EXPECT_EQ(names_of(block, "").size(), codegen::device_headers().size());
}

// Never that of one family's kernels
TEST_F(Lower, TheArchitectureIsTheDevices) {
  const Lowered lowered = lower(conv(), parse(block), {}, device).value();
  plan::Device other = device;
  other.major = 8, other.minor = 6;
  EXPECT_EQ(lower(lowered.problem, lowered.chosen, other).value().request().arch, "sm_86");
  other.major = 12, other.minor = 0;
  EXPECT_EQ(lower(lowered.problem, lowered.chosen.plan, other).value().request().arch, "sm_120a");
}

TEST_F(Lower, PooledAndUpsampledStoresAreTheGraphs) {
  const std::string y = "y = relu(acc + bias[n])\n";
  const auto both = parse(y + "store y : bf16\nstore max_pool_2x2(y) as p : bf16\nstore upsample_2x2(y) as e : bf16\n");
  const Problem problem = analyse(conv(), both, {}).value();
  EXPECT_EQ(problem.epilogue().resampled, (plan::Resampled{.pooled = "p", .upsampled = "e", .source = "y"}));
  EXPECT_EQ(problem.epilogue().graph.stores.size(), 1u);
  EXPECT_THAT(lower(problem, device).value().kernel.source,
              HasSubstr("using Resample = Resampled<false, true, true>;"));
  const Lowered alone = lower(conv(), parse(y + "store upsample_2x2(y) as e : bf16\n"), {}, device).value();
  EXPECT_THAT(alone.kernel.source, HasSubstr("using Resample = Resampled<true, false, true>;"));
}

TEST_F(Lower, OnlyTheMainStoreIsPooledOrUpsampled) {
  const auto refusal = [&](const std::string& text, const Contraction& contraction) -> std::string {
    try {
      lower(contraction, parse(text), {}, device).value();
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(
      refusal("store acc as h : bf16\nstore upsample_2x2(acc) as e : bf16\nstore relu(acc) as y : bf16", conv()),
      Says("upsampled store: … writes 'y' last, and 'e' … another store"));
  EXPECT_THAT(refusal("store upsample_2x2(acc) as e : f32", conv()), HasSubstr("result [m,n]"));
  EXPECT_THAT(refusal("store upsample_2x2(acc) as e : bf16", Gemm{.m = 64, .n = 64, .k = 64}),
              HasSubstr("has no image; expected a convolution"));
}

TEST_F(Lower, TunerAndBenchmarksGetTheKernelThatCompileGets) {
  const Lowered lowered = lower(conv(), parse(block), {}, device).value();
  const jit::Request request = lowered.request();
  EXPECT_THAT(request.source, HasSubstr(lowered.kernel.entry));
  EXPECT_THAT(request.title, HasSubstr("resident"));
  EXPECT_EQ(request.arch, "sm_90a");
  const auto trials = tuner::trials_of(analyse(conv(), parse(block), {}).value(), device, 4);
  ASSERT_GE(trials.size(), 2u);
  EXPECT_EQ(trials[0].request.source, request.source);
  EXPECT_EQ(trials[0].request.title, request.title);
  EXPECT_NE(trials[1].request.source, request.source);
  const bench::Variants variants = bench::variants_of(conv(), parse(block), "", device, 1);
  ASSERT_EQ(variants.list.size(), 1u);
  EXPECT_EQ(variants.list[0].request.source, request.source);
  EXPECT_EQ(variants.list[0].request.title, request.title);
}

TEST_F(Lower, NetworksToo) {
  NetworkBuilder net("one");
  const auto ones = [&](const char* name, Shape shape, std::size_t count) {
    return net.constant(name, std::move(shape), std::vector<float>(count, 1.f));
  };
  const NetworkValue x = net.input("x", {"batch", 64, "height", "width"});
  const NetworkValue y = conv2d(x, ones("w", {64, 64, 3, 3}, 64 * 64 * 9), ones("b", {64}, 64), {.pad = 1});
  net.output(silu(group_norm(y, {.groups = 8, .scale = ones("g", {64}, 64), .shift = ones("s", {64}, 64)})), "y");
  const Network network = net.build();
  NetworkOptions options;
  options.device = Device::cuda;
  const std::map<std::string, std::vector<std::int64_t>> shapes{{"x", {2, 64, 32, 32}}};
  const auto problems = network::gpu::tuning_problems(network, options, shapes, device);
  ASSERT_EQ(problems.size(), 1u);
  // Launches of the tuner's write its filters. A network's are constant, but CTAs of this kernel wait for one another
  EXPECT_FALSE(problems[0].filters_ahead);
  const std::string source = lower(problems[0], device).value().request().source;
  int found = 0;
  for (const jit::Request& r : network::gpu::requests(network, options, shapes, device)) found += r.source == source;
  EXPECT_EQ(found, 1);
}

// A number is part of the kernel. A value is an argument of the launch: of it only that it comes by value, or by
// pointer
TEST_F(Lower, AttributesThatAreValuesAreArguments) {
  for (const char* plan : {"", "family=plain"}) {
    CompileOptions options;
    options.plan = plan;
    const auto lowered = [&](const char* slope) {
      return lower(conv(), parse(fmt::format("store leaky_relu(acc + bias[n], slope={}) as y : bf16\n", slope)),
                   options, device)
          .value();
    };
    const auto key = [&](const char* slope) { return jit::program_key(lowered(slope).request()); };
    EXPECT_NE(key("0.25"), key("-3"));
    const Lowered by_value = lowered("s[]");
    const auto& fields = by_value.kernel.fields;
    EXPECT_EQ(std::count_if(fields.begin(), fields.end(), [](const auto& f) { return f.name == "s"; }), 1);
    const std::string value_key = key("s[]");
    EXPECT_EQ(jit::program_key(by_value.request()), value_key);
    options.device_scalars = {"s"};
    EXPECT_NE(key("s[]"), value_key);
  }
}

TEST_F(Lower, APlanIsTakenAsItWasFixed) {
  CompileOptions options;
  options.plan = "tile=128x64 order=cooperative mode=resident";
  const Lowered fixed = lower(conv(), parse(block), options, device).value();
  EXPECT_EQ(fixed.chosen.origin, tuning::Origin::fixed);
  EXPECT_THAT(fixed.request().title, HasSubstr("128x64"));
  EXPECT_THAT(fixed.request().title, AllOf(HasSubstr("cooperative"), HasSubstr("resident")));
  EXPECT_EQ(lower(fixed.problem, fixed.chosen, device).value().kernel.source, fixed.kernel.source);
}

// No option of the public interface asks for them
TEST_F(Lower, DelaysAreForTests) {
  const Lowered without = lower(conv(), parse(block), {}, device).value();
  EXPECT_EQ(without.kernel.source.find("UNISONO_DELAYS"), std::string::npos);
  const Lowered with = lower(analyse(conv(), parse(block), {}, {.delays = true}).value(), device).value();
  EXPECT_THAT(with.kernel.source, HasSubstr("#define UNISONO_DELAYS"));
}

// What only networks ask for
TEST_F(Lower, MomentsAndOperandsApart) {
  const Graph graph = parse("store silu(acc + bias[n] + temb[b,n]) as y : bf16\n");
  const Further further{.moments = {"moments", 8}, .apart = {"temb"}};
  const Lowered with = lower(analyse(conv(), graph, {}, further).value(), device).value();
  EXPECT_THAT(with.kernel.source, HasSubstr("kMoments"));
  const auto pitches = [](const Lowered& l) {
    return std::ranges::count(l.kernel.fields, codegen::Field::Kind::pitch, &codegen::Field::kind);
  };
  EXPECT_EQ(pitches(with), 1);
  const Lowered without = lower(conv(), graph, {}, device).value();
  EXPECT_THAT(without.kernel.source, HasSubstr("kMoments = 0,"));
  EXPECT_EQ(pitches(without), 0);
}

// By TMA, which loads the filters of most plans; never where each image has a filter of its own
TEST_F(Lower, FiltersAhead) {
  const auto source = [&](const Contraction& contraction, const char* plan, bool ahead) {
    CompileOptions options;
    options.plan = plan;
    const Graph graph = parse("store acc as y : bf16\n");
    return lower(contraction, graph, options, device, {.filters_ahead = ahead}).value().kernel.source;
  };
  const std::string waits = source(conv(), "load=im2col", false);
  EXPECT_THAT(waits, HasSubstr("using Operands = Images;"));
  std::string ahead = source(conv(), "load=im2col", true);
  ASSERT_THAT(ahead, HasSubstr("using Operands = FiltersAhead<Images>;"));
  ahead.replace(ahead.find("FiltersAhead<Images>"), std::strlen("FiltersAhead<Images>"), "Images");
  EXPECT_EQ(ahead, waits);
  const auto has_ahead = HasSubstr("FiltersAhead");
  EXPECT_THAT(source(conv(), "load=halo", true), has_ahead);
  EXPECT_THAT(source(conv(), "load=gather", true), testing::Not(has_ahead));
  Gemm product{.m = 64, .n = 64, .k = 64, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
  EXPECT_THAT(source(product, "load=im2col", true), has_ahead);
  product.batch = 3;
  EXPECT_THAT(source(product, "load=im2col", true), testing::Not(has_ahead));
}

TEST_F(Lower, RefusesWithReasons) {
  const auto refusal = [&](const Contraction& contraction, const char* text) -> std::string {
    try {
      lower(contraction, parse(text), {}, device).value();
    } catch (const Unsupported& error) {
      return error.what();
    }
    return "served";
  };
  const Gemm product{.m = 64, .n = 64, .k = 64, .dtype_a = DType::f64, .dtype_b = DType::f64};
  EXPECT_THAT(refusal(product, "store acc as y : bf16\n"), Says("as the convolution … and no"));
  EXPECT_THAT(refusal(conv(), "store acc : f64\n"), HasSubstr("f64"));
  EXPECT_EQ(refusal(conv(), block), "served");
  Conv2d wrong = conv();
  wrong.h = -1;
  EXPECT_THROW(analyse(wrong, parse(block), {}).value(), UserError);
}

// Callers to whom a refusal is an answer get its reasons themselves, all of them, not a text to look for them in
TEST_F(Lower, AttemptsAnswerWithEveryReason) {
  const auto refusal = [&](const Contraction& contraction, const char* text, const CompileOptions& options = {}) {
    const auto answer = lower(contraction, parse(text), options, device);
    return answer ? std::vector<std::string>{"served"} : answer.refusal().reasons;
  };
  EXPECT_THAT(refusal(conv(), block), testing::ElementsAre("served"));
  const Gemm product{.m = 64, .n = 64, .k = 64, .dtype_a = DType::f64, .dtype_b = DType::f64};
  EXPECT_THAT(refusal(product, "store acc as y : bf16\n"),
              testing::ElementsAre(HasSubstr("dtypes: the operands are f64 and f64; the kernels multiply bf16"),
                                   HasSubstr("f64 and f64; mma.sync"), HasSubstr("f64 and f64; the plain kernels")));
  EXPECT_THAT(refusal(conv(), "store acc : f64\n"),
              testing::ElementsAre(AllOf(Says("not yet … GPU kernel: "), HasSubstr("f64"))));
  CompileOptions options;
  options.plan = "mode=rows";
  const auto reasons = refusal(conv(), block, options);
  EXPECT_GT(reasons.size(), 1u);
  for (const std::string& reason : reasons) {
    EXPECT_THAT(reason, testing::Not(AnyOf(HasSubstr("no kernel serves"), testing::StartsWith(" "), HasSubstr("\n"))));
    EXPECT_THAT(reason, AnyOf(HasSubstr(": "), HasSubstr("other reasons")));
  }
  try {
    lower(conv(), parse(block), options, device).value();
    ADD_FAILURE() << "served";
  } catch (const plan::Refused& error) {
    EXPECT_EQ(error.refusal().reasons, reasons);
    for (const std::string& reason : reasons) EXPECT_THAT(error.what(), HasSubstr("\n  " + reason + "\n"));
  }
}

// What is measured for it is kept, and found, under the key of the first form
TEST_F(Lower, AProblemKeepsItsFormsWhicheverThePlanTakes) {
  const Gemm rows{.m = 64, .n = 1024, .k = 256, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
  const Lowered lowered = lower(rows, parse("store softmax(acc, over=n) as y : bf16"), {}, device).value();
  EXPECT_GT(lowered.problem.forms.list.size(), 1u);
  EXPECT_TRUE(lowered.epilogue().normalises_rows()) << "one statistic of a row";
  EXPECT_TRUE(lowered.problem.epilogue().general()) << "the form that the plan does not take";
}

TEST_F(Lower, PassesAreHeardOf) {
  CompileOptions options;
  int passes = 0;
  options.on_pass = [&](const std::string&, const Graph&, const Graph&) { ++passes; };
  analyse(conv(), parse(block), options).value();
  EXPECT_GT(passes, 3);
}

}  // namespace
}  // namespace unisono::lower
