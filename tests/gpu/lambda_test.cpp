// User functions with what they capture: scalars and memory as arguments of a launch, integer coordinates, several
// results.

#include <gtest/gtest.h>

#include <cstring>

#include "gpu/testbed.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::gpu {
namespace {

constexpr std::int64_t rows = 2 * 11 * 9, channels = 40;

Case subject(const char* text, const char* plan = "") {
  Case c{.name = "lambda",
         .conv = {.n = 2, .h = 11, .w = 9, .c = 16, .k = channels, .r = 3, .s = 3, .pad = {1, 1, 1, 1}},
         .text = text,
         .options = {}};
  c.conv.dtype_x = c.conv.dtype_w = DType::bf16;
  c.options.device = Device::cuda, c.options.plan = plan;
  return c;
}

std::vector<float> floats(const Buffer& buffer) {
  std::vector<float> values(buffer.bytes() / sizeof(float));
  buffer.download(values.data());
  return values;
}

// A table of each channel and a scalar, both captured
UserFunction looked_up() {
  return {.name = "looked_up",
          .arity = 2,
          .cuda_source =
              "__device__ float looked_up(float x, long long n, float gain, const float* table) {\n"
              "    return x * gain + table[n];\n}",
          .cpu = {},
          .parameters = {ParameterType::float32, ParameterType::int64},
          .scalars = {"gain"},
          .pointers = {{"table", "const float*"}}};
}

// A compute lambda: its table and its scalar are rebound without a compilation
TEST(LambdaSmall, CapturesScalarsAndMemoryOfALaunch) {
  for (const char* plan : {"", "family=plain tile=64x64"}) {
    const Case c = subject("store acc as y : f32", plan);
    Testbed testbed(c);
    const Graph graph = parse("store looked_up(acc, index(n)) as y : f32\nstore acc as raw : f32", {looked_up()});
    const Executable executable = compile(c.conv, graph, c.options);
    Buffer raw(rows * channels * 4), tables[2] = {Buffer(channels * 4), Buffer(channels * 4)};
    for (int i = 0; i < 2; ++i) {
      std::vector<float> table(channels);
      for (std::size_t n = 0; n < table.size(); ++n) table[n] = static_cast<float>(n * (i + 1));
      tables[i].upload(table.data());
    }
    Arguments arguments = testbed.arguments();
    arguments.outputs["raw"] = {raw.data(), DType::f32, arguments.outputs.at("y").shape, {}};
    arguments.scalars["gain"] = 2;
    EXPECT_THROW(executable.run(arguments), UserError);  // the table is not bound
    arguments.pointers["table"] = tables[0].data();
    Launch launch = executable.bind(arguments);
    for (int i = 0; i < 2; ++i) {
      if (i == 1) launch.rebind(launch.slot("table"), tables[1].data()), launch.rebind(launch.slot("gain"), 0.5);
      testbed.poison(nullptr);
      launch.enqueue(nullptr);
      const std::vector<float> y = floats(*testbed.tensor("y").device), x = floats(raw);
      int wrong = 0;
      for (std::size_t at = 0; at < y.size(); ++at)
        wrong += y[at] != x[at] * (i == 0 ? 2.f : 0.5f) + static_cast<float>(at % channels * (i + 1));
      EXPECT_EQ(wrong, 0) << plan << " launch " << i << "\n" << executable.describe();
    }
    arguments.pointers["other"] = tables[0].data();
    EXPECT_THROW(executable.run(arguments), UserError);
  }
}

// A void lambda, which writes to memory that it has captured: every element once, at its place
TEST(LambdaSmall, WritesToWhatItHasCaptured) {
  const UserFunction keep{.name = "keep",
                          .arity = 3,
                          .returns_value = false,
                          .cuda_source =
                              "__device__ void keep(long long m, int n, float x, float* to) {\n"
                              "    float* const at = to + 2 * (m * 40 + n);\n"
                              "    at[0] += 1.f, at[1] = x;\n}",
                          .cpu = {},
                          .parameters = {ParameterType::int64, ParameterType::int32},
                          .pointers = {{"kept", "float*"}}};
  const Case c = subject("store acc as y : f32");
  Testbed testbed(c);
  Buffer kept(rows * channels * 8);
  kept.upload(std::vector<std::byte>(kept.bytes()).data());
  Arguments arguments = testbed.arguments();
  arguments.pointers["kept"] = kept.data();
  compile(c.conv, parse("store acc as y : f32\nkeep(index(m), index(n), acc)", {keep}), c.options).run(arguments);
  const std::vector<float> y = floats(*testbed.tensor("y").device), seen = floats(kept);
  int wrong = 0;
  for (std::size_t at = 0; at < y.size(); ++at) wrong += seen[2 * at] != 1.f || seen[2 * at + 1] != y[at];
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(kept.guards_hold());
}

TEST(LambdaSmall, HasSeveralResults) {
  const UserFunction split{
      .name = "split",
      .arity = 1,
      .cuda_source = "__device__ void split(float x, float* r) { r[0] = fmaxf(x, 0.f), r[1] = x - r[0]; }",
      .cpu = {},
      .results = 2};
  const Case c = subject("store acc as y : f32");
  Testbed testbed(c);
  Buffer z(rows * channels * 4), raw(rows * channels * 4);
  Arguments arguments = testbed.arguments();
  for (const auto& [name, buffer] : {std::pair{"z", &z}, {"raw", &raw}})
    arguments.outputs[name] = {buffer->data(), DType::f32, arguments.outputs.at("y").shape, {}};
  compile(c.conv,
          parse("store split_0(acc) as y : f32\nstore split_1(acc) as z : f32\nstore acc as raw : f32", {split}),
          c.options)
      .run(arguments);
  const std::vector<float> high = floats(*testbed.tensor("y").device), low = floats(z), x = floats(raw);
  int wrong = 0;
  for (std::size_t at = 0; at < x.size(); ++at)
    wrong += high[at] != std::max(x[at], 0.f) || low[at] != std::min(x[at], 0.f);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace unisono::gpu
