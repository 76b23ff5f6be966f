// Vector forms of user functions: which widths are called where, with what alignment, and that elements come out as in
// single calls, in registers and in shared memory.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "families/registry.hpp"
#include "gpu/testbed.hpp"
#include "lower/lower.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::gpu {
namespace {

Case subject(std::int64_t channels, const char* text, const std::string& plan, DType type = DType::bf16) {
  Case c{.name = "vector forms",
         .conv = {.n = 2, .h = 5, .w = 7, .c = 16, .k = channels, .r = 3, .s = 3, .pad = {1, 1, 1, 1}},
         .text = text,
         .options = {}};
  c.conv.dtype_x = c.conv.dtype_w = type;
  c.options.device = Device::cuda, c.options.plan = plan;
  return c;
}

// Counts and keeps each element at its place, with the number of elements of the call; forms write whole vectors there.
UserFunction keep() {
  std::string text =
      "__device__ void mark(float* to, float x, float width) { to[0] += width, to[1] = x; }\n"
      "__device__ void keep(long long m, int n, float x, int channels, float4* kept) {\n"
      "    mark(reinterpret_cast<float*>(kept) + 2 * (m * channels + n), x, 1.f);\n}\n";
  const auto add = [&](int width, std::string_view type, std::initializer_list<const char*> members) {
    text += fmt::format(
        "__device__ void keep(long long m, int n, {} x, int channels, float4* kept) {{\n"
        "    float4* const to = kept + (m * channels + n) / 2;\n",
        type);
    int i = 0;
    const char* before = nullptr;
    for (const char* member : members) {
      if (i % 2 == 1)
        text += fmt::format("    to[{0}] = {{to[{0}].x + {1}.f, x.{2}, to[{0}].z + {1}.f, x.{3}}};\n", i / 2, width,
                            before, member);
      before = member, ++i;
    }
    text += "}\n";
  };
  add(2, "float2", {"x", "y"});
  add(4, "float4", {"x", "y", "z", "w"});
  add(8, "unisono::float8", {"low.x", "low.y", "low.z", "low.w", "high.x", "high.y", "high.z", "high.w"});
  return {.name = "keep",
          .arity = 4,
          .returns_value = false,
          .cuda_source = text,
          .cpu = {},
          .parameters = {ParameterType::int64, ParameterType::int32, ParameterType::float32, ParameterType::int32},
          .pointers = {{"kept", "float4*"}}};
}

// The width of the call that has channel n of row m, where a lane has `together` of `channels`
int width_of(std::int64_t m, std::int64_t n, std::int64_t channels, int together) {
  for (int width = together; width > 1; width /= 2)
    if (m * channels % width == 0 && n / width * width + width <= channels) return width;
  return 1;
}

TEST(VectorFormSmall, AreCalledWhereTheLayoutAllows) {
  struct Way {
    const char* plan;
    int together;
  };
  for (const std::int64_t channels : {40, 20, 21, 8, 2})
    for (const Way& way :
         {Way{"", 8}, {"epilogue=shared tile=64x24", 8}, {"epilogue=registers", 2}, {"family=plain tile=64x64", 1}}) {
      SCOPED_TRACE(fmt::format("{} channels, plan '{}'", channels, way.plan));
      const Case c = subject(channels, "store acc as y : f32", way.plan);
      Testbed testbed(c);
      const std::int64_t rows = c.conv.n * c.conv.h * c.conv.w;
      Buffer kept(static_cast<std::size_t>(rows * channels) * 8);
      kept.upload(std::vector<std::byte>(kept.bytes()).data());
      Arguments arguments = testbed.arguments();
      arguments.pointers["kept"] = kept.data();
      const Executable executable =
          compile(c.conv, parse("store acc as y : f32\nkeep(index(m), index(n), acc, extent(n))", {keep()}), c.options);
      executable.run(arguments);
      std::vector<float> y(kept.bytes() / 8), seen(kept.bytes() / 4);
      testbed.tensor("y").device->download(y.data()), kept.download(seen.data());
      int values = 0, widths = 0;
      for (std::size_t at = 0; at < y.size(); ++at) {
        const auto m = static_cast<std::int64_t>(at) / channels, n = static_cast<std::int64_t>(at) % channels;
        values += seen[2 * at + 1] != y[at];
        widths += seen[2 * at] != static_cast<float>(width_of(m, n, channels, way.together));
      }
      EXPECT_EQ(values, 0) << executable.describe();
      EXPECT_EQ(widths, 0) << executable.describe();
      EXPECT_TRUE(kept.guards_hold());
      arguments.pointers["kept"] = static_cast<float*>(kept.data()) + 2;
      EXPECT_THROW(executable.run(arguments), UserError);  // float4* asks for 16 bytes
    }
}

// Against the reference: residuals, columns, values of rows, stores of all kinds, images by halo tiles and products
TEST(VectorFormSmall, AgreeWithTheReference) {
  for (const char* plan : {"", "epilogue=registers", "epilogue=shared order=pingpong", "family=plain tile=64x64"})
    for (const std::int64_t channels : {72, 44, 13}) {
      for (const char* text :
           {"h = acc * gain[n] + r[m,n]\ny = relu(bend(h, acc, index(n)))\nstore h as z : bf16\nstore y : bf16",
            "h = bend(acc, row[m], index(n))\nstore bend(h + bias[n], h, index(n)) * 0.5 as y : f32\nstore h as z : "
            "bf16",
            "store bend(acc, acc, index(n)) as y : bf16"}) {
        const std::string problems = Testbed(subject(channels, text, plan)).check();
        EXPECT_EQ(problems, "") << channels << " channels, plan '" << plan << "'\n" << text;
      }
    }
}

// Calls that take no vector: an integer that varies, values that are coarser, and modes that have single elements
TEST(VectorFormSmall, SingleCallsElsewhere) {
  for (const char* text :
       {"store bend(acc, acc, index(n) + 1) as y : bf16", "store acc + bend(bias[n], gain[n], index(n)) as y : bf16",
        "h = bend(acc, acc, 2)\nstore group_norm(h, groups=4, scale=gain[n], shift=bias[n]) as y : bf16",
        "h = bend(acc, acc, index(n))\nstore h as y : f32\nstore mean(h, over=m) as average : f32",
        "store softmax(bend(acc, acc, index(n)), over=n) as y : f32"})
    for (const std::int64_t channels : {72, 20})
      EXPECT_EQ(Testbed(subject(channels, text, "")).check(), "") << channels << " channels\n" << text;
}

// Ahead of a normalisation and behind it, by the mode that computes elements several at a time, in registers and in
// shared memory; and where accumulators wait in memory
TEST(VectorFormSmall, BesideANormalisationInTheModeGeneral) {
  const char* const text =
      "h = bend(acc, acc, index(n)) + bias[n]\ny = group_norm(h, groups=4, scale=gain[n], eps=1e-3)\n"
      "store bend(y, h, index(n)) as y : bf16";
  struct Way {
    const char* plan;
    const char* told;
  };
  for (const Way& way : {Way{"mode=general", "bend: 8 channels a call"},
                         {"mode=general epilogue=registers load=halo", "bend: 2 channels a call"},
                         {"mode=general spill=f32 order=pingpong tile=64x24", "bend: 8 channels a call"}})
    for (const std::int64_t channels : {72, 20}) {
      const Case c = subject(channels, text, way.plan);
      EXPECT_EQ(Testbed(c).check(), "") << channels << " channels, plan '" << way.plan << "'";
      const lower::Problem problem = lower::analyse(c.contraction(), graph_of(c), c.options).value();
      const std::string told =
          families::explain({problem.task, problem.forms, planning_device()}, parse_plan(way.plan), 0);
      EXPECT_NE(told.find(way.told), std::string::npos) << told;
      EXPECT_EQ(told.find("one element a call"), std::string::npos) << told;
    }
}

// Without functions shared memory gives the bits that registers give
TEST(VectorFormSmall, SharedMemoryChangesNoBit) {
  const char* text =
      "h = acc * gain[n] + r[m,n]\nstore h as z : bf16\nstore gelu(h) + row[m] as y : f32\nstore relu(h) as x : bf16";
  for (const std::int64_t channels : {136, 20}) {
    std::vector<std::vector<std::byte>> results[2];
    for (int i = 0; i < 2; ++i) {
      Testbed testbed(subject(channels, text, i == 0 ? "epilogue=registers" : "epilogue=shared", DType::f16));
      EXPECT_EQ(testbed.check(), "") << channels << " channels, way " << i;
      results[i] = testbed.outputs();
    }
    EXPECT_TRUE(results[0] == results[1]) << channels;
  }
}

}  // namespace
}  // namespace unisono::gpu
