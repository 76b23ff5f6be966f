#include "gpu/kernels.hpp"

#include <map>
#include <mutex>

#include "runtime/cuda/driver.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {

extern const char* const kernels_text;  // kernels.cuh

using cuda::check;
using cuda::driver;

namespace {
int type_of(DType t) { return t == DType::bf16 ? 0 : t == DType::f16 ? 1 : 2; }
}  // namespace

Shape shape_of(const Conv2d& c) {
  const Extents e = extents(Contraction(c));
  const auto i = [](std::int64_t x) { return static_cast<int>(x); };
  return {i(c.n),      i(c.h),           i(c.w),           i(c.c),
          i(c.k),      i(c.r),           i(c.s),           i(e.height),
          i(e.width),  i(c.stride[0]),   i(c.stride[1]),   i(c.pad[0]),
          i(c.pad[1]), i(c.dilation[0]), i(c.dilation[1]), type_of(c.dtype_x)};
}

Product product_of(const Gemm& g) {
  const auto i = [](std::int64_t x) { return static_cast<int>(x); };
  return {i(g.batch), i(g.m), i(g.n), i(g.k), g.transpose_a, g.transpose_b, type_of(g.dtype_a)};
}

General general_of(const Contraction& contraction) {
  const Extents e = extents(contraction);
  const auto fill = [&](const auto& c, bool transposed) {
    const auto i = [](std::int64_t x) { return static_cast<int>(x); };
    const Shape shape{i(c.n),      i(c.h),           i(c.w),           i(c.c),
                      i(c.k),      i(c.r),           i(c.s),           i(e.height),
                      i(e.width),  i(c.stride[0]),   i(c.stride[1]),   i(c.pad[0]),
                      i(c.pad[1]), i(c.dilation[0]), i(c.dilation[1]), type_of(c.dtype_x)};
    return General{shape, i(c.groups), c.layout == Layout::nchw, transposed};
  };
  if (const auto* t = std::get_if<ConvTranspose2d>(&contraction)) return fill(*t, true);
  return fill(std::get<Conv2d>(contraction), false);
}

jit::Jit& compiler() {
  static jit::Jit instance;
  return instance;
}

jit::Request kernels_request(const plan::Device& device) {
  return {.source = kernels_text,
          .headers = {},
          .entry = "unisono_reference",
          .title = "the tests' own kernels",
          .arch = device.arch()};
}

namespace {

// Loaded once, never unloaded
CUmodule module() {
  static const CUmodule loaded = [] {
    const jit::Binary binary = compiler().compile(kernels_request(device().device));
    CUmodule m = nullptr;
    check(driver().cuModuleLoadData(&m, binary.cubin.data()), "loading the tests' kernels");
    return m;
  }();
  return loaded;
}

CUfunction function(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, CUfunction> found;
  const std::lock_guard lock(mutex);
  CUfunction& f = found[name];
  if (f == nullptr) check(driver().cuModuleGetFunction(&f, module(), name.c_str()), "finding " + name);
  return f;
}

}  // namespace

void detail::launch(const char* name, std::uint64_t ctas, CUstream stream, void** arguments) {
  device();
  if (ctas == 0 || ctas > 0x7fffffff) throw InternalError(std::string("a grid without a size for ") + name);
  check(driver().cuLaunchKernel(function(name), static_cast<unsigned>(ctas), 1, 1, 256, 1, 1, 0, stream, arguments,
                                nullptr),
        std::string("launching ") + name);
}

unsigned long long differences(CUdeviceptr a, CUdeviceptr b, std::size_t bytes, CUstream stream) {
  Buffer result(sizeof(unsigned long long));
  check(driver().cuMemsetD8Async(result.address(), 0, result.bytes(), stream), "clearing a counter");
  launch("unisono_differences", striding, stream, a, b, static_cast<unsigned long long>(bytes / 4), result.address());
  wait(stream, "comparing");
  unsigned long long count = 0;
  result.download(&count);
  if (bytes % 4 != 0) {
    std::uint16_t last[2];
    for (int i = 0; i < 2; ++i)
      check(driver().cuMemcpy(reinterpret_cast<CUdeviceptr>(&last[i]), (i == 0 ? a : b) + bytes - 2, 2), "comparing");
    count += last[0] != last[1];
  }
  return count;
}

}  // namespace unisono::gpu
