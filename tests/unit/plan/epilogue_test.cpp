#include "plan/epilogue.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "passes/passes.hpp"
#include "plan/analyse.hpp"
#include "plan/refusal.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::plan {
namespace {

constexpr Extents extents{.images = 2, .height = 16, .width = 16, .cols = 64};

Epilogue analysed(std::string_view text) {
  const auto nothing = [](std::span<const double>) { return 0.0; };
  return analyse(passes::run_pipeline(parse(text, {{"observe", 1, false, "", nothing}})), extents, {.channels = 256})
      .value();
}

std::string texts(const Epilogue& e, const std::vector<ValueId>& values) {
  std::string text;
  for (const ValueId v : values) text += (text.empty() ? "" : ", ") + text_of(e.graph, v);
  return text;
}

// "x | factor | shift", and what else there is, a line each
std::string describe(const Epilogue& e) {
  verify(e.graph);
  const auto optional = [&](const std::optional<ValueId>& v, const char* absent) {
    return v ? text_of(e.graph, *v) : absent;
  };
  std::string text;
  if (e.norm())
    text +=
        fmt::format("x: {}\nfactor: {}\nshift: {}\ngroup: {}\n", text_of(e.graph, e.norm()->input),
                    optional(e.norm()->factor, "1"), optional(e.norm()->shift, "0"), e.normalised()->group_channels);
  for (const Output& o : e.outputs) {
    constexpr std::array paths{"before", "after", "statistics"};
    text += fmt::format("{}: {}\n", paths[static_cast<std::size_t>(o.path)], e.graph.stores[o.store].name);
  }
  const auto list = [&](const char* name, const std::vector<ValueId>& values) {
    if (!values.empty()) text += fmt::format("{}: {}\n", name, texts(e, values));
  };
  list("uniforms", e.uniforms);
  list("columns before", e.ahead_of_stages().columns);
  list("columns after", e.reads.columns);
  list("tensors before", e.ahead_of_stages().tensors);
  list("tensors after", e.reads.tensors);
  if (e.uses_raw) text += "raw\n";
  return text;
}

TEST(Epilogue, WithoutNormalisationEverythingIsAfter) {
  const Epilogue e = analysed("operand alpha\nstore relu(acc * alpha + bias[n]) + exp(t[b,n]) * r[m,n] as y : bf16");
  EXPECT_EQ(describe(e), "after: y\nuniforms: alpha[]\ncolumns after: exp(t[b,n]), bias[n]\ntensors after: r[m,n]\n");
  EXPECT_TRUE(e.per_image());
  EXPECT_FALSE(analysed("store acc + bias[n] as y : bf16").per_image());
  EXPECT_TRUE(analysed("store acc + t[b] as y : bf16").per_image());
}

TEST(Epilogue, TheLastStoreIsTheMainOne) {
  const Epilogue e = analysed("h = acc + bias[n]\nstore h : f16\nstore relu(h) as y : bf16");
  EXPECT_EQ(describe(e), "after: y\nafter: h\ncolumns after: bias[n]\n");
  EXPECT_TRUE(e.side_after());
  EXPECT_FALSE(e.side_before());
}

TEST(Epilogue, ColumnsAreAddedFirst) {
  EXPECT_EQ(describe(analysed("store acc + bias[n] + temb[b,n] + u[n] as y : bf16")),
            "after: y\ncolumns after: bias[n] + temb[b,n] + u[n]\n");
  EXPECT_EQ(describe(analysed("store acc * s[n] + bias[n] + temb[b,n] as y : bf16")),
            "after: y\ncolumns after: s[n], bias[n] + temb[b,n]\n");
  // … unless somebody needs the sum in between, or its rounding is asked for
  EXPECT_EQ(describe(analysed("h = acc + bias[n]\nstore (h + t[b,n]) * h as y : bf16")),
            "after: y\ncolumns after: bias[n], t[b,n]\n");
  EXPECT_EQ(describe(analysed("store cast(acc + bias[n], bf16) + cast(t[n], bf16) as y : bf16")),
            "after: y\ncolumns after: bias[n], cast(t[n], bf16)\n");
}

TEST(Epilogue, GroupNorm) {
  const Epilogue e = analysed(
      "h = acc + bias[n] + temb[b,n]\nstore mish(group_norm(h, groups=32, scale=gamma[n], shift=beta[n], eps=1e-5)) as "
      "y : bf16\nstore h : bf16");
  EXPECT_EQ(
      describe(e),
      "x: h = acc + (bias[n] + temb[b,n])\nfactor: rsqrt(variance(h, over=(m,n), per=b, groups=32) + 1e-5) * gamma[n]\n"
      "shift: beta[n]\ngroup: 2\nafter: y\nbefore: h\ncolumns before: bias[n] + temb[b,n]\n");
  EXPECT_TRUE(e.side_before());
  EXPECT_TRUE(e.per_image());
}

TEST(Epilogue, InstanceNormOfScaledAccumulators) {
  EXPECT_EQ(describe(analysed("x = acc * s[n]\nstore relu(instance_norm(x, scale=gamma[n], eps=0)) as y : bf16")),
            "x: x = acc * s[n]\nfactor: rsqrt(variance(x, over=m, per=b)) * gamma[n]\nshift: 0\ngroup: 1\nafter: "
            "y\ncolumns before: s[n]\n");
  EXPECT_EQ(describe(analysed("operand a\nx = acc * a\nstore group_norm(x, groups=4) as y : bf16")),
            "x: x = acc * a[]\nfactor: rsqrt(variance(x, over=(m,n), per=b, groups=4) + 1e-5)\nshift: 0\ngroup: "
            "16\nafter: y\nuniforms: a[]\n");
}

// Products with columns are one factor, up to the first sum
TEST(Epilogue, FactorsAreGathered) {
  EXPECT_EQ(
      describe(analysed("y = instance_norm(acc) * s[n]\nstore relu(y * t[b,n] - u[n]) as z : bf16")),
      "x: acc\nfactor: rsqrt(variance(acc, over=m, per=b) + 1e-5) * s[n] * t[b,n]\nshift: -u[n]\ngroup: 1\nafter: z\n");
  EXPECT_EQ(
      describe(analysed(
          "d = acc - mean(acc, over=m, per=b)\nstore d / (sqrt(variance(acc, over=m, per=b)) + 0.1) as y : bf16")),
      "x: acc\nfactor: reciprocal(sqrt(variance(acc, over=m, per=b)) + 0.1)\nshift: 0\ngroup: 1\nafter: y\n");
  EXPECT_EQ(describe(analysed("store acc - mean(acc, over=m, per=b) - u[n] as y : bf16")),
            "x: acc\nfactor: 1\nshift: -u[n]\ngroup: 1\nafter: y\n");
  EXPECT_EQ(describe(analysed("y = instance_norm(acc, shift=u[n])\nstore relu(y * t[b,n] + v[n]) as z : bf16")),
            "x: acc\nfactor: rsqrt(variance(acc, over=m, per=b) + 1e-5)\nshift: u[n]\ngroup: 1\nafter: z\ncolumns "
            "after: t[b,n], v[n]\n");
}

// The passes write it as fma(x - mean, rstd, r): the product becomes a value of its own
TEST(Epilogue, AResidualIsNoShift) {
  const Epilogue e = analysed("store instance_norm(acc) + r[m,n] as y : bf16");
  EXPECT_EQ(describe(e),
            "x: acc\nfactor: rsqrt(variance(acc, over=m, per=b) + 1e-5)\nshift: 0\ngroup: 1\nafter: y\ntensors after: "
            "r[m,n]\n");
  const Node& sum = e.graph[e.graph.stores[0].value];
  EXPECT_EQ(sum.op, Op::add);
  EXPECT_EQ(sum.inputs[0], e.norm()->result);
}

TEST(Epilogue, TwoResults) {
  const Epilogue e =
      analysed("y = group_norm(acc, groups=2, shift=u[n])\nstore y : f16\nstore tanh(y) * s[n] as z : bf16");
  EXPECT_EQ(describe(e),
            "x: acc\nfactor: rsqrt(variance(acc, over=(m,n), per=b, groups=2) + 1e-5)\nshift: u[n]\ngroup: 32\nafter: "
            "z\nafter: y\n"
            "columns after: s[n]\n");
  EXPECT_TRUE(e.side_after());
}

TEST(Epilogue, TheInputAgain) {
  EXPECT_EQ(describe(analysed("h = acc + bias[n]\nstore silu(instance_norm(h)) + h as y : bf16")),
            "x: h = acc + bias[n]\nfactor: rsqrt(variance(h, over=m, per=b) + 1e-5)\nshift: 0\ngroup: 1\nafter: "
            "y\ncolumns before: bias[n]\nraw\n");
  // The one that reads the input has to be the main one
  EXPECT_EQ(describe(analysed("y = instance_norm(acc)\nstore y + acc as z : bf16\nstore y : bf16")).substr(0, 4),
            "x: a");
  EXPECT_EQ(analysed("y = instance_norm(acc)\nstore y + acc as z : bf16\nstore relu(y) as y : bf16").outputs[0].store,
            0);
}

// An operand and what is computed of it may be computed on both sides
TEST(Epilogue, Fission) {
  EXPECT_EQ(describe(analysed("r = relu(x[m,n])\nstore instance_norm(acc * r) * r as y : bf16")),
            "x: r * acc\nfactor: rsqrt(variance(r * acc, over=m, per=b) + 1e-5)\nshift: 0\ngroup: 1\nafter: y\n"
            "tensors before: x[m,n]\ntensors after: x[m,n]\n");
}

TEST(Epilogue, StatisticsAreStored) {
  const Epilogue e = analysed(
      "h = acc + bias[n]\nstore relu(group_norm(h, groups=4)) as y : bf16\nstore mean(h, over=(m,n), per=b, groups=4) "
      "as mu : f32\n"
      "store rsqrt(variance(h, over=(m,n), per=b, groups=4) + 1e-5) as rstd : bf16");
  EXPECT_EQ(describe(e),
            "x: h = acc + bias[n]\nfactor: rsqrt(variance(h, over=(m,n), per=b, groups=4) + 1e-5)\nshift: "
            "0\ngroup: 16\n"
            "after: y\nstatistics: mu\nstatistics: rstd\ncolumns before: bias[n]\n");
  // A group of one channel is a channel: its statistics may meet operands
  EXPECT_EQ(analysed("store instance_norm(acc) as y : bf16\nstore variance(acc, over=m, per=b) * s[n] as v : f32")
                .outputs.size(),
            2);
}

TEST(Epilogue, LayerNormKeepsItsColumnsForAfter) {
  const Epilogue e = analysed(
      "h = acc + bias[n]\nstore silu(layer_norm(h, scale=gamma[n], shift=beta[n], eps=1e-5)) + r[m,n] as y : bf16\n"
      "store h : bf16");
  EXPECT_TRUE(e.normalises_rows());
  EXPECT_EQ(
      describe(e),
      "x: h = acc + bias[n]\nfactor: rsqrt(variance(h, over=n) + 1e-5)\nshift: 0\ngroup: 64\nafter: y\nbefore: h\n"
      "columns before: bias[n]\ncolumns after: gamma[n], beta[n]\ntensors after: r[m,n]\n");
  EXPECT_FALSE(e.per_image());
  EXPECT_TRUE(analysed("store layer_norm(acc, scale=s[b,n]) as y : bf16").per_image());
}

// Scalars and what else the statistics give belong to factor and shift
TEST(Epilogue, OfAPixelFactorAndShiftKnowStatisticsAndScalars) {
  EXPECT_EQ(describe(analysed("operand a\nm = mean(acc, over=n)\nstore (acc - m) * a + m as y : bf16")),
            "x: acc\nfactor: a[]\nshift: m = mean(acc, over=n)\ngroup: 64\nafter: y\nuniforms: a[]\n");
}

// Over the rows of all images, with functions of the statistics beside operands of their axes
TEST(Epilogue, BatchNorm) {
  const Epilogue e = analysed(
      "h = acc + bias[n]\nstore relu(batch_norm(h, scale=gamma[n], shift=beta[n])) as y : bf16\n"
      "store 0.9 * old[n] + 0.1 * mean(h, over=m) as mu : f32");
  EXPECT_EQ(describe(e),
            "x: h = acc + bias[n]\nfactor: gamma[n] * rsqrt(variance(h, over=m) + 1e-5)\nshift: beta[n]\ngroup: 1\n"
            "after: y\nstatistics: mu\ncolumns before: bias[n]\n");
  EXPECT_TRUE(e.normalised()->batch);
  EXPECT_FALSE(e.per_image());
  EXPECT_FALSE(analysed("store instance_norm(acc) as y : bf16").normalised()->batch);
}

TEST(Epilogue, IsPure) {
  const char* text = "y = group_norm(acc + bias[n], groups=2)\nstore y + r[m,n] as y : bf16";
  const Epilogue x = analysed(text), y = analysed(text);
  EXPECT_EQ(print(x.graph), print(y.graph));
  EXPECT_EQ(describe(x), describe(y));
}

struct Refused {
  const char *text, *value, *reason;
};
class Refusal : public testing::TestWithParam<Refused> {};

TEST_P(Refusal, SaysWhichValueAndWhy) {
  const auto& [text, value, reason] = GetParam();
  try {
    analysed(text);
    FAIL() << "it was not refused";
  } catch (const Unsupported& e) {
    EXPECT_THAT(std::string(e.what()),
                Says(fmt::format("'{}' is not … GPU kernel: … {} … It runs … CPU device", value, reason)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Epilogue, Refusal,
    testing::Values(
        Refused{"store acc + mean(t[b,n], over=m) as y : bf16", "mean(t[b,n], over=m)", "a reduction … axes [b,n]"},
        Refused{"store acc as y : bf16\nstore bias[n] : bf16", "bias[n]", "a store with axes [n] … statistics alone"},
        Refused{"store group_norm(acc, groups=2) as y : bf16\nstore variance(acc, over=(m,n), per=b, groups=2) * s[n] "
                "as v : f32",
                "variance(acc, over=(m,n), per=b, groups=2) * s[n]", "their axes [b,g2], not [b,n]"},
        Refused{"store cast(cast(acc, f64) * 2, f32) as y : bf16", "cast(acc, f64)", "f64 arithmetic"}));

TEST(Epilogue, RefusesGraphsWithoutAnElement) { EXPECT_THROW(analysed("store exp(bias[n]) as y : bf16"), Unsupported); }

TEST(Epilogue, WantsGraphsThatWentThroughThePasses) {
  EXPECT_THROW(analyse(parse("store softmax(acc) as y : bf16"), extents, {.channels = 256}).value(), InternalError);
}

}  // namespace
}  // namespace unisono::plan
