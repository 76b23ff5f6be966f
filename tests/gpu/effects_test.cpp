// Functions that are called for their effect: once for each element or row that exists, with its coordinates and
// values.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "gpu/testbed.hpp"
#include "unisono/text.hpp"

namespace unisono::gpu {
namespace {

constexpr std::int64_t rows = 2 * 11 * 9, channels = 72;

// "__device__ void name(float m, …) { counts one more at `index` of the floats at this address, and leaves a value
// behind }"
UserFunction witness(const std::string& name, int arity, const char* parameters, const char* index, const Buffer& at) {
  UserFunction f;
  f.name = name;
  f.arity = arity;
  f.returns_value = false;
  f.cuda_source = fmt::format(
      "__device__ void {}({}) {{\n    float* at = reinterpret_cast<float*>({}ull) + 2 * ({});\n    at[0] += 1.f, at[1] "
      "= x;\n}}",
      name, parameters, reinterpret_cast<std::uintptr_t>(at.data()), index);
  f.cpu = [](std::span<const double>) { return 0.0; };
  return f;
}

std::vector<float> contents(const Buffer& buffer) {
  std::vector<float> values(buffer.bytes() / sizeof(float));
  buffer.download(values.data());
  return values;
}

TEST(Effects, AreSeenOnceForEachElementAndRow) {
  Buffer of_elements(rows * channels * 8), of_rows(rows * 8);
  for (const char* plan : {"load=im2col order=pingpong", "load=halo", "split=on", "tile=128x64 cluster=2x1"}) {
    for (Buffer* b : {&of_elements, &of_rows}) b->upload(std::vector<std::byte>(b->bytes()).data());
    Case c{.name = "effects",
           .conv = {.n = 2, .h = 11, .w = 9, .c = 136, .k = channels, .r = 3, .s = 3, .pad = {1, 1, 1, 1}},
           .text = "store acc as y : f32",
           .options = {}};
    c.conv.dtype_x = c.conv.dtype_w = DType::bf16;
    c.options.device = Device::cuda;
    c.options.plan = plan;
    Testbed testbed(c);
    const Graph graph =
        parse("store acc as y : f32\nseen(index(m), index(n), acc)\nrow_seen(index(m), index(w) + 100 * index(h))",
              {witness("seen", 3, "float m, float n, float x", "int(m) * 72 + int(n)", of_elements),
               witness("row_seen", 2, "float m, float x", "int(m)", of_rows)});
    const Executable executable = compile(c.conv, graph, c.options);
    executable.run(testbed.arguments());
    std::vector<float> y(rows * channels);
    testbed.tensor("y").device->download(y.data());
    const std::vector<float> elements = contents(of_elements), lines = contents(of_rows);
    int wrong = 0;
    for (std::size_t i = 0; i < y.size(); ++i) wrong += elements[2 * i] != 1.f || elements[2 * i + 1] != y[i];
    for (std::size_t m = 0; m < rows; ++m)
      wrong += lines[2 * m] != 1.f || lines[2 * m + 1] != static_cast<float>(m % 9 + 100 * (m / 9 % 11));
    EXPECT_EQ(wrong, 0) << plan << "\n" << executable.describe();
    EXPECT_TRUE(of_elements.guards_hold() && of_rows.guards_hold()) << plan;
  }
}

}  // namespace
}  // namespace unisono::gpu
