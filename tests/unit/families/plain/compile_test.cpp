// The kernels of family `plain` by NVRTC, for architectures that have no more than ordinary instructions.

#include <gtest/gtest.h>

#include <optional>

#include "families/plain/family.hpp"
#include "families/plain/space.hpp"
#include "families/registry.hpp"
#include "jit/jit.hpp"
#include "plan/analyse.hpp"
#include "unisono/error.hpp"
#include "unit/plan/problems.hpp"

namespace unisono::families::plain {
namespace {

std::span<const jit::Header> headers() {
  static const std::vector<jit::Header> all = [] {
    std::vector<jit::Header> list;
    for (const codegen::Header& h : codegen::device_headers()) list.push_back({h.name, h.text});
    return list;
  }();
  return all;
}

struct Kernel {
  Contraction contraction;
  const char* text;
  const char* tile;
};

// A kernel of each mode, tile and layout, with 16-bit, f32, integer and boolean memory
const Kernel kernels[] = {
    {plan::test::conv_of(2, 16, 16, 24, 64, 3),
     "h = acc + bias[n]\nstore h : bf16\nstore silu(group_norm(h, groups=4, scale=gamma[n])) as y : f16\n"
     "store mean(h, over=(m,n), per=b, groups=4) as mu : f32",
     "128x64"},
    {ConvTranspose2d{.h = 8,
                     .w = 8,
                     .c = 12,
                     .k = 20,
                     .r = 3,
                     .s = 3,
                     .stride = {2, 2},
                     .layout = Layout::nchw,
                     .dtype_x = DType::f32,
                     .dtype_w = DType::f16},
     "operand r[m,n] : i32\nstore max(acc, s[m]) + index(w) as y : f32\nstore acc > cast(r, f32) as up : bool", "64x4"},
    {Gemm{.batch = 2, .m = 9, .n = 200, .k = 31, .dtype_a = DType::f16, .dtype_b = DType::bf16},
     "operand r[m,n] : f16\nstore gelu(layer_norm(acc + r)) as y : bf16", "16x128"},
};

TEST(PlainKernels, CompileForEveryArchitecture) {
  std::vector<jit::Request> requests;
  for (const Kernel& k : kernels) {
    const plan::ConvTask task = plan::as_convolution(k.contraction);
    const plan::Epilogue e =
        plan::analyse(passes::run_pipeline(parse(k.text)), extents(k.contraction), families::tile_limits()).value();
    PlanOverride fixed;
    fixed.fields["tile"] = k.tile;
    const auto plans = family().candidates({task, e, {}}, fixed);
    ASSERT_EQ(plans.size(), 1u);
    const codegen::Kernel text = family().generate(*plans[0].plan, e, {});
    for (const char* arch : {"sm_75", "sm_80", "sm_90"})
      requests.push_back(
          {.source = text.source, .headers = headers(), .entry = text.entry, .title = arch, .arch = arch});
  }
  jit::Settings settings;
  settings.use_cache = false;
  std::optional<jit::Jit> compiler;
  try {
    compiler.emplace(settings);
    compiler->compile(jit::Request{.source = "extern \"C\" __global__ void none() {}",
                                   .headers = {},
                                   .entry = "none",
                                   .title = "nothing",
                                   .arch = "sm_80"});
  } catch (const CompileError& e) {
    GTEST_SKIP() << e.what();
  }
  for (const jit::Binary& binary : compiler->compile(requests)) {
    EXPECT_FALSE(binary.cubin.empty());
    EXPECT_EQ(binary.resources.spill_store_bytes, 0u);
    EXPECT_LE(binary.resources.registers, 255);
  }
}

}  // namespace
}  // namespace unisono::families::plain
