// Bad input on a GPU: the right class of error, what was expected, and nothing launched.

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <functional>

#include "gpu/testbed.hpp"
#include "runtime/cuda/driver.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

using ::testing::HasSubstr;

class Refusal : public ::testing::Test {
 protected:
  Case c = [] {
    Case x{.name = "refusals",
           .conv = {.n = 2,
                    .h = 9,
                    .w = 10,
                    .c = 16,
                    .k = 32,
                    .r = 3,
                    .s = 3,
                    .pad = {1, 1, 1, 1},
                    .dtype_x = DType::bf16,
                    .dtype_w = DType::bf16},
           .text =
               "operand r[m,n] : bf16\nh = acc * alpha[] + bias[n]\nstore h : bf16\n"
               "store group_norm(h, groups=4, scale=gamma[n]) + r as y : bf16\nstore mean(h, over=(m,n), per=b, "
               "groups=4) as mu : f32",
           .options = {}};
    x.options.device = Device::cuda;
    x.scalars["alpha"] = 0.5;
    return x;
  }();
  Testbed testbed{c};
  Executable executable = testbed.compile();

  template <class Error = UserError>
  void expect_refusal(const std::function<void(Arguments&)>& change, const std::string& message) {
    Arguments a = testbed.arguments();
    change(a);
    testbed.poison(nullptr);
    const auto before = testbed.outputs();
    const std::function<void()> ways[] = {[&] { executable.run(a); }, [&] { executable.enqueue(a, nullptr); },
                                          [&] { executable.bind(a).enqueue(nullptr); }};
    for (const auto& way : ways) {
      try {
        way();
        ADD_FAILURE() << "accepted; expected: " << message;
      } catch (const Error& e) {
        EXPECT_THAT(e.what(), Says(message));
      }
    }
    wait(nullptr, "what should not have been launched");
    EXPECT_EQ(testbed.outputs(), before) << "something was launched after: " << message;
  }

  static void* moved(const void* p, int bytes) { return const_cast<char*>(static_cast<const char*>(p)) + bytes; }
};

TEST_F(Refusal, TheUnchangedArgumentsAreServed) { EXPECT_EQ(testbed.check(executable), ""); }

TEST_F(Refusal, Names) {
  expect_refusal([](Arguments& a) { a.operands.erase("bias"); }, "operand bias[n] is not bound");
  expect_refusal([](Arguments& a) { a.scalars.erase("alpha"); }, "operand alpha[] is not bound");
  expect_refusal([](Arguments& a) { a.outputs.erase("mu"); }, "output mu[b,g4] is not bound");
  expect_refusal([](Arguments& a) { a.operands["gama"] = a.operands["gamma"]; }, "did you mean 'gamma'?");
}

TEST_F(Refusal, ShapesAndDtypes) {
  expect_refusal(
      [](Arguments& a) {
        a.image.shape = {2, 16, 9, 10};
      },
      "the image was given shape (2,16,9,10); expected (2,9,10,16)");
  expect_refusal([](Arguments& a) { a.filter.dtype = DType::f16; }, "the filter was given dtype f16; expected bf16");
  expect_refusal([](Arguments& a) { a.operands["r"].dtype = DType::f32; }, "was given dtype f32; expected bf16");
  expect_refusal([](Arguments& a) { a.outputs["mu"].shape = {2, 8}; }, "expected (2,4)");
  expect_refusal([](Arguments& a) { a.outputs["y"].strides = {2880, 32, 288, 1}; }, "make a dense copy");
}

// Whose memory it is is another question, for the driver
TEST_F(Refusal, CheckedWithoutMemory) {
  EXPECT_NO_THROW(executable.check_arguments(testbed.arguments()));
  Arguments apart = testbed.arguments(), misaligned = apart, elsewhere = apart;
  apart.operands["r"].strides = {2880, 320, 64, 1};
  EXPECT_THROW(executable.check_arguments(apart), UserError);
  misaligned.image.data = moved(misaligned.image.data, 2);
  EXPECT_THROW(executable.check_arguments(misaligned), UserError);
  alignas(16) static float host[4096];
  elsewhere.operands["bias"].data = host;
  EXPECT_NO_THROW(executable.check_arguments(elsewhere));
}

TEST_F(Refusal, Pointers) {
  expect_refusal([](Arguments& a) { a.image.data = nullptr; }, "null pointer");
  expect_refusal([](Arguments& a) { a.image.data = moved(a.image.data, 2); }, "expected a multiple of 16 bytes");
  expect_refusal([](Arguments& a) { a.outputs["y"].data = moved(a.outputs["y"].data, 8); },
                 "expected a multiple of 16 bytes");
  alignas(16) static float host[4096];
  expect_refusal([](Arguments& a) { a.operands["bias"].data = host; }, "host memory");
  expect_refusal([](Arguments& a) { a.outputs["h"].data = host; }, "expected memory of GPU");
  expect_refusal([](Arguments& a) { a.outputs["y"].data = const_cast<void*>(a.operands["r"].data); },
                 "shares memory with operand r[m,n]");
}

// From the first byte to the last, whatever the memory is
TEST_F(Refusal, MemoryThatIsTooSmall) {
  const cuda::Memory few(device(), 16, "sixteen bytes"), all(device(), 2 * 9 * 10 * 32 * 2, "a whole output");
  const auto at = [](const cuda::Memory& m) { return reinterpret_cast<void*>(m.address()); };
  expect_refusal([&](Arguments& a) { a.outputs["y"].data = at(few); }, "16 bytes of its allocation");
  expect_refusal([&](Arguments& a) { a.outputs["h"].data = moved(at(all), 16); }, "expected 11520 bytes");
  expect_refusal([&](Arguments& a) { a.operands["r"].data = at(few); }, "operand r[m,n] was given the address");
  Arguments fits = testbed.arguments();
  fits.outputs["y"].data = at(all);
  EXPECT_NO_THROW(executable.bind(fits));
}

// A pool's memory and managed memory are served, also from the middle of an allocation
TEST_F(Refusal, MemoryOfOtherKindsIsNot) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  const auto async =
      reinterpret_cast<CUresult (*)(CUdeviceptr*, std::size_t, CUstream)>(::dlsym(library, "cuMemAllocAsync"));
  const auto free_async = reinterpret_cast<CUresult (*)(CUdeviceptr, CUstream)>(::dlsym(library, "cuMemFreeAsync"));
  const auto managed =
      reinterpret_cast<CUresult (*)(CUdeviceptr*, std::size_t, unsigned)>(::dlsym(library, "cuMemAllocManaged"));
  if (async == nullptr || free_async == nullptr || managed == nullptr) GTEST_SKIP() << "not in this driver";
  constexpr std::size_t bytes = 2 * 9 * 10 * 32 * 2;
  CUdeviceptr pooled[3] = {}, both = 0;
  for (CUdeviceptr& p : pooled) cuda::check(async(&p, bytes, nullptr), "allocating from a pool");
  cuda::check(managed(&both, 4 * bytes, CU_MEM_ATTACH_GLOBAL), "allocating managed memory");
  executable.run(testbed.arguments());
  const auto expected = testbed.tensor("y").device->contents();
  for (const CUdeviceptr p : {pooled[0], pooled[1], pooled[2], both, both + 3 * bytes}) {
    Arguments a = testbed.arguments();
    a.outputs["y"].data = reinterpret_cast<void*>(p);
    EXPECT_NO_THROW(executable.run(a));
    std::vector<std::byte> y(bytes);
    cuda::check(cuda::driver().cuMemcpy(reinterpret_cast<CUdeviceptr>(y.data()), p, bytes), "downloading");
    EXPECT_EQ(y == expected, true);
  }
  std::size_t whole = 0;  // the range that the driver names, which may be larger
  cuda::check(cuda::driver().cuPointerGetAttribute(&whole, CU_POINTER_ATTRIBUTE_RANGE_SIZE, both),
              "asking for a range");
  Arguments beyond = testbed.arguments();
  beyond.outputs["y"].data = reinterpret_cast<void*>(both + (whole - bytes) / 16 * 16 + 16);
  EXPECT_THROW(executable.bind(beyond), UserError);
  for (CUdeviceptr p : pooled) free_async(p, nullptr);
  cuda::check(cuda::driver().cuMemFree_v2(both), "freeing managed memory");
}

TEST_F(Refusal, Options) {
  const auto refused = [&](const std::function<void(CompileOptions&)>& change) -> std::string {
    CompileOptions options = c.options;
    change(options);
    try {
      compile(c.conv, testbed.graph(), options);
    } catch (const UserError& e) {
      return std::string("user: ") + e.what();
    } catch (const Unsupported& e) {
      return std::string("unsupported: ") + e.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refused([](CompileOptions& o) { o.device_index = 99; }),
              HasSubstr("user: CompileOptions::device_index is 99"));
  EXPECT_THAT(refused([](CompileOptions& o) { o.device_index = -1; }),
              HasSubstr("user: CompileOptions::device_index is -1"));
  EXPECT_THAT(refused([](CompileOptions& o) { o.plan = "mode=residentt"; }), HasSubstr("did you mean 'resident'?"));
  EXPECT_THAT(refused([](CompileOptions& o) { o.plan = "mode=none"; }), HasSubstr("unsupported: "));
  EXPECT_THAT(refused([](CompileOptions& o) { o.storage["gama"] = DType::bf16; }), HasSubstr("did you mean 'gamma'?"));
  const ConstTensorView wrong{nullptr, DType::bf16, {32, 3, 3, 16}, {}};
  EXPECT_THAT(refused([&](CompileOptions& o) { o.constant_filter = wrong; }),
              Says("constant filter (constant_filter) … null pointer"));
}

// A filter that never changes comes from the host and may go at once
TEST_F(Refusal, ConstantFilter) {
  CompileOptions options = c.options;
  std::vector<std::byte> filter = testbed.tensor("(b)").host;
  options.constant_filter = ConstTensorView{filter.data(), DType::bf16, {32, 3, 3, 16}, {}};
  const Executable constant = compile(c.conv, testbed.graph(), options);
  std::fill(filter.begin(), filter.end(), std::byte{0});
  testbed.poison(nullptr);
  executable.run(testbed.arguments());
  const auto expected = testbed.outputs();
  testbed.poison(nullptr);
  Arguments a = testbed.arguments();
  a.filter = {};
  constant.run(a);
  EXPECT_EQ(testbed.outputs(), expected);
}

}  // namespace
}  // namespace unisono::gpu
