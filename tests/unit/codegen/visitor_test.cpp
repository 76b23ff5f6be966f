#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fixture.hpp"

namespace unisono::codegen {
namespace {

using testing::HasSubstr;
using testing::Not;

int count(const std::string& text, std::string_view part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Visitor, AValueUsedTwiceIsComputedOnce) {
  const std::string body = body_of(kernel_of("t = tanh(acc)\nstore t * t + t / (t + 2) as y : bf16"), "after");
  EXPECT_EQ(count(body, "math::tanh"), 1) << body;
}

TEST(Visitor, ColumnsAreComputedOncePerChannel) {
  const Kernel k = kernel_of("store acc * exp(gamma[n]) + bias[n] * s[] as y : bf16");
  EXPECT_THAT(body_of(k, "columns_after"), HasSubstr("math::accurate::exp(gamma)"));
  EXPECT_THAT(body_of(k, "after"), Not(HasSubstr("exp")));
  EXPECT_EQ(body_of(k, "uniform"), "return {p.s};\n");
}

// Elements of a general epilogue know their row, not their image's number but as a column
TEST(Visitor, AnImagesNumberIsAColumn) {
  const Kernel k = kernel_of("store sin(acc + index(b)) as y : f32");
  EXPECT_THAT(body_of(k, "columns_after"), HasSubstr("image"));
  EXPECT_THAT(body_of(k, "element"), Not(HasSubstr("image"))) << body_of(k, "element");
  EXPECT_THAT(body_of(k, "element"), HasSubstr("column[0]"));
}

// The order in which a host fills the parameters
TEST(Visitor, Fields) {
  Options options;
  options.scalar_pointers = {"device_scalar"};
  options.storage = {{"bias", DType::bf16}, {"device_scalar", DType::f16}};
  const Kernel k = kernel_of(
      "operand steps : i32\noperand on : bool\nh = acc * device_scalar[] + bias[n] + temb[b,n] + steps\n"
      "store select(on, instance_norm(h), h) as y : bf16\nstore mean(h, over=m, per=b) as mu : f32",
      options);
  std::string text;
  for (const Field& f : k.fields) {
    constexpr std::array kinds{"pointer", "value", "store", "extent"};
    text += std::string(kinds[static_cast<std::size_t>(f.kind)]) + " " + f.name + " " +
            std::string(to_string(f.dtype)) + to_string(f.axes) + "\n";
  }
  EXPECT_EQ(
      text,
      "value on i32[]\npointer device_scalar f16[]\npointer bias bf16[n]\npointer temb f32[b,n]\nvalue steps i32[]\n"
      "store mu f32[b,n]\nextent  i32[]\n");
  EXPECT_EQ(k.fields.back().coordinate, Coordinate::n);
  EXPECT_EQ(k.entry, "unisono_kernel");
}

// Eight bytes each, in the order of the fields
TEST(Visitor, ParamsHoldTheFields) {
  const Kernel k = kernel_of("store acc * s[] + bias[n] + temb[b,n] as y : bf16");
  EXPECT_THAT(k.source, HasSubstr("    struct Params {\n"
                                  "        alignas(8) float s;\n"
                                  "        const void* bias;  // f32 [n]\n"
                                  "        const void* temb;  // f32 [b,n]\n"
                                  "        alignas(8) int channels;\n"
                                  "    };\n"));
}

// Images of a range of columns lie as far apart as rows of the whole tensor
TEST(Visitor, ImagesThatLieApart) {
  Options options;
  options.apart = {"temb", "bias"};  // of [b,n] only
  const Kernel k = kernel_of("store acc + bias[n] + temb[b,n] * temb_pitch[] as y : bf16", options);
  EXPECT_THAT(k.source, HasSubstr("        const void* temb;  // f32 [b,n]\n"
                                  "        alignas(8) float temb_pitch;\n"
                                  "        alignas(8) int temb_pitch_2;\n"
                                  "    };\n"));
  EXPECT_EQ(k.fields.back().kind, Field::Kind::pitch);
  EXPECT_EQ(k.fields.back().name, "temb");
  EXPECT_THAT(body_of(k, "columns_after"), HasSubstr("load<float>(p.temb, image * p.temb_pitch_2 + channel)"));
}

TEST(Visitor, ScalarsFromDeviceMemory) {
  Options options;
  options.scalar_pointers = {"s"};
  options.storage = {{"s", DType::bf16}};
  EXPECT_EQ(body_of(kernel_of("store acc * s[] as y : bf16", options), "uniform"),
            "const float s = load<Bf16>(p.s, 0);\nreturn {s};\n");
}

TEST(Visitor, ExtentsComeFromTheHost) {
  const Kernel k = kernel_of("store acc / (extent(h) * extent(w)) as y : bf16");
  ASSERT_EQ(k.fields.size(), 2);
  EXPECT_EQ(k.fields[0].coordinate, Coordinate::h);
  EXPECT_EQ(k.fields[1].coordinate, Coordinate::w);
  EXPECT_THAT(body_of(k, "uniform"), HasSubstr("math::mul(p.extent_of_h, p.extent_of_w)"));
}

// silu(y) = h + h·tanh(h), h = y/2
TEST(Visitor, HalvesWhatOnlyTanhReads) {
  const Kernel norm = kernel_of("store silu(group_norm(acc, groups=4, scale=g[n], shift=s[n])) as y : bf16");
  EXPECT_EQ(body_of(norm, "after"), "const float v11 = math::silu_of_half(norm);\nreturn v11;\n");
  EXPECT_THAT(body_of(norm, "affine"), HasSubstr("return {0.5f * v8, 0.5f * late.s};"));
  const Kernel bias = kernel_of("store silu(acc + bias[n]) as y : bf16");
  EXPECT_THAT(body_of(bias, "after"), HasSubstr("math::fma(acc, 0.5f, bias)"));
  EXPECT_THAT(body_of(bias, "columns_after"), HasSubstr("column[0] = as_column(0.5f * bias);"));
  const Kernel product = kernel_of("store sigmoid(acc * s[n] + bias[n]) as y : bf16");
  EXPECT_THAT(body_of(product, "columns_after"), HasSubstr("column[1] = as_column(0.5f * bias);"));
  EXPECT_THAT(body_of(product, "columns_after"), HasSubstr("column[0] = as_column(0.5f * s);"));
}

TEST(Visitor, HalvesNothingThatOthersRead) {
  for (const char* text : {"y = group_norm(acc, groups=4)\nstore silu(y) + y as z : bf16",
                           "y = group_norm(acc, groups=4)\nstore silu(y) as z : bf16\nstore y : bf16",
                           "store silu(acc + bias[n]) + bias[n] as y : bf16", "store silu(acc + s[]) as y : bf16",
                           "x = acc + bias[n]\nstore silu(x) * x as y : bf16", "store silu(acc * bias[n]) as y : bf16",
                           "store silu(cast(acc + bias[n], bf16)) as y : bf16",
                           "x = acc + bias[n]\nstore silu(x) + instance_norm(x) as y : bf16"})
    EXPECT_THAT(kernel_of(text).source, Not(HasSubstr("of_half"))) << text;
  Options accurate;
  accurate.accurate = true;
  EXPECT_THAT(kernel_of("store silu(acc + bias[n]) as y : bf16", accurate).source, Not(HasSubstr("of_half")));
}

TEST(Visitor, AccurateFormsOnRequest) {
  Options accurate;
  accurate.accurate = true;
  const char* text = "store mish(acc) + r[m,n] / acc as y : bf16";
  EXPECT_THAT(body_of(kernel_of(text, accurate), "after"), HasSubstr("math::accurate::mish(acc)"));
  EXPECT_THAT(body_of(kernel_of(text, accurate), "after"), HasSubstr("math::accurate::div(r, acc)"));
  EXPECT_THAT(body_of(kernel_of(text), "after"), HasSubstr("math::mish(acc)"));
}

TEST(Visitor, BuildsForTests) {
  Options options;
  options.watchdog = options.delays = true;
  EXPECT_THAT(kernel_of("store acc as y : bf16", options).source,
              HasSubstr("#define UNISONO_WATCHDOG\n#define UNISONO_DELAYS\n#include"));
  EXPECT_THAT(kernel_of("store acc as y : bf16").source, Not(HasSubstr("#define")));
}

TEST(Visitor, AFunctionIsPastedOnce) {
  const Kernel k = kernel_of("store gain(acc) + gain(gain(acc)) + blend(acc, 2) as y : bf16");
  EXPECT_EQ(count(k.source, "__device__ float gain(float x)"), 1);
  EXPECT_EQ(count(k.source, "__device__ float blend(float x, float y)"), 1);
}

// Packing rounds once more to the same; the statistics are those of the rounded value
TEST(Visitor, ACastToTheStoredDtypeIsLeftToTheStore) {
  const Kernel k = kernel_of("h = cast(acc + bias[n], bf16)\nstore instance_norm(h) as y : bf16\nstore h : bf16");
  EXPECT_THAT(body_of(k, "before"), HasSubstr("h = math::round_bf16("));
  EXPECT_THAT(body_of(k, "side"), Not(HasSubstr("round")));
  EXPECT_THAT(body_of(kernel_of("store cast(acc, f16) as y : bf16"), "after"), HasSubstr("math::round_f16(acc)"));
  EXPECT_THAT(body_of(kernel_of("h = cast(acc, bf16)\nstore h * h as x : bf16\nstore h : bf16"), "side"),
              HasSubstr("math::round_bf16(acc)"));
}

// Both sides of the normalisation read the operand: each by its own list
TEST(Visitor, AnOperandOfBothSidesIsListedTwice) {
  const Kernel k = kernel_of("store relu(instance_norm(acc + x[m,n]) + x[m,n]) as y : bf16");
  EXPECT_THAT(k.source, HasSubstr("kTensorsBefore = 1, kTensors = 2;"));
  EXPECT_THAT(body_of(k, "before"), HasSubstr("x = tensor[0];"));
  EXPECT_THAT(body_of(k, "after"), HasSubstr("x = tensor[0];"));
}

}  // namespace
}  // namespace unisono::codegen
