// Visitors in a kernel that is not the library's: a scalar product in CUDA C++ with the epilogues that
// codegen::visitor_header writes, compared with the float64 reference.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "codegen/codegen.hpp"
#include "gpu/kernels.hpp"
#include "gpu/testbed.hpp"
#include "lower/lower.hpp"
#include "lower/request.hpp"
#include "plan/as_convolution.hpp"
#include "runtime/cuda/driver.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

constexpr const char* own_kernel = R"(
struct Own {
  const void *a, *b;
  void *main, *side;
  int m, n, k, rows;  // rows: of an image
  unisono::own::Epilogue::Params params;
};

extern "C" __global__ void own_product(const __grid_constant__ Own p) {
  using unisono::Bf16;
  const unisono::own::Epilogue epilogue(p.params, {p.main, p.side});
  const auto* a = static_cast<const unsigned short*>(p.a);
  const auto* b = static_cast<const unsigned short*>(p.b);
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < p.m * p.n; i += int(gridDim.x * blockDim.x)) {
    const int m = i / p.n, n = i % p.n, image = m / p.rows;
    float sum = 0.f;
    for (int k = 0; k < p.k; ++k)
      sum = fmaf(widened(Bf16(), a[m * p.k + k]), widened(Bf16(), b[(image * p.k + k) * p.n + n]), sum);
    epilogue(sum, {image, m}, n, p.n);
  }
}
)";

Case case_of(const char* text) {
  constexpr std::int64_t batch = 2, m = 13, n = 40, k = 24;
  Case c{.name = "own", .conv = {}, .text = text, .options = {}};
  c.product = Gemm{.batch = batch, .m = m, .n = n, .k = k, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
  c.conv = plan::as_convolution(*c.product).conv;
  c.options.device = Device::cuda;
  c.options.accurate = true;
  c.scalars = {{"gain", 0.75}};
  if (c.text.find("gain") == std::string::npos) c.scalars.clear();
  return c;
}

/// The 8 bytes of a member of Params.
std::uint64_t word_of(const codegen::Field& field, const Arguments& arguments) {
  using Kind = codegen::Field::Kind;
  switch (field.kind) {
    case Kind::operand_pointer: return reinterpret_cast<std::uintptr_t>(arguments.operands.at(field.name).data);
    case Kind::store_pointer: return reinterpret_cast<std::uintptr_t>(arguments.outputs.at(field.name).data);
    case Kind::operand_value: {
      const auto value = static_cast<float>(arguments.scalars.at(field.name));
      std::uint64_t word = 0;
      std::memcpy(&word, &value, sizeof value);
      return word;
    }
    case Kind::extent: return field.coordinate == Coordinate::n ? 40 : 13;
    case Kind::operand_step:
    case Kind::store_step:
    case Kind::operand_vectors:
    case Kind::pointer:
    case Kind::pitch: break;
  }
  throw InternalError("a field that no case has: " + field.name);
}

class OwnKernelSmall : public testing::TestWithParam<const char*> {};

TEST_P(OwnKernelSmall, AgreesWithTheReference) {
  const Case c = case_of(GetParam());
  Testbed testbed(c);
  std::string problems;
  Outcome outcome = testbed.run(testbed.compile(), problems);
  ASSERT_EQ(problems, "");

  const lower::Problem analysed = lower::analyse(c.contraction(), graph_of(c), c.options).value();
  const codegen::VisitorHeader header =
      codegen::visitor_header(analysed.epilogue(), "own",
                              {.accurate = c.options.accurate, .storage = c.options.storage})
          .value();
  const jit::Binary binary = compiler().compile({.source = header.source + own_kernel,
                                                 .headers = lower::device_headers(),
                                                 .entry = "own_product",
                                                 .title = "own kernel",
                                                 .arch = device().device.arch()});
  const cuda::Current current(device());
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  cuda::check(cuda::driver().cuModuleLoadData(&module, binary.cubin.data()), "loading");
  cuda::check(cuda::driver().cuModuleGetFunction(&kernel, module, "own_product"), "finding");

  testbed.poison(nullptr);
  wait(nullptr, "poisoning");
  const Arguments arguments = testbed.arguments();
  std::array<std::uint64_t, 64> own{};
  own[0] = reinterpret_cast<std::uintptr_t>(arguments.left.data),
  own[1] = reinterpret_cast<std::uintptr_t>(arguments.right.data);
  for (std::size_t i = 0; i < header.named.size(); ++i)
    own[2 + i] = reinterpret_cast<std::uintptr_t>(
        arguments.outputs.at(analysed.epilogue().graph.stores[header.named[i]].name).data);
  const Gemm& g = *c.product;
  const std::array<int, 4> extents{static_cast<int>(g.batch * g.m), static_cast<int>(g.n), static_cast<int>(g.k),
                                   static_cast<int>(g.m)};
  std::memcpy(&own[4], extents.data(), sizeof extents);
  for (std::size_t i = 0; i < header.fields.size(); ++i) own[6 + i] = word_of(header.fields[i], arguments);
  void* list[] = {own.data()};
  cuda::check(cuda::driver().cuLaunchKernel(kernel, 3, 1, 1, 64, 1, 1, 0, nullptr, list, nullptr), "launching");
  wait(nullptr, "own kernel");

  EXPECT_EQ(testbed.broken_guard(), "");
  for (const std::string& name : testbed.output_names())
    outcome.tensors.at(name).host = testbed.tensor(name).device->contents();
  EXPECT_EQ(judge(outcome), "") << header.source;
  cuda::check(cuda::driver().cuModuleUnload(module), "unloading");
}

INSTANTIATE_TEST_SUITE_P(, OwnKernelSmall,
                         testing::Values("store gelu(acc + bias[n]) * gain[] + r[m,n] as y : bf16",
                                         "h = acc + bias[n]\nstore h as pre : f16\nstore relu(h) as y : bf16",
                                         "store acc * scale[b,n] as y : bf16",
                                         "store acc * row[m] + index(n) as y : f32\nstore row[m] + 1 as z : f32",
                                         "store acc as p : bf16\nstore acc + bias[n] as q : bf16\nstore acc > 0 as "
                                         "r : bool"));

}  // namespace
}  // namespace unisono::gpu
